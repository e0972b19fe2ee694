// One reader for each file format. All check the file as a whole: no example is skipped, and none is
// repaired.
#pragma once

#include "parsyn/dataset.hpp"

namespace parsyn::data {

Examples read_idx(const DatasetFileOptions &options, const CancelQuery &cancelled);
Examples read_csv(const DatasetFileOptions &options, const CancelQuery &cancelled);
Examples read_jsonl(const DatasetFileOptions &options, const CancelQuery &cancelled);
Examples read_safetensors_examples(const DatasetFileOptions &options, const CancelQuery &cancelled);

}  // namespace parsyn::data
