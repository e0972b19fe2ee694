// Workers, datasets and models over REST: the bodies that register them. Reading is as strict as in
// job_document.hpp.
//
//   worker:  {"name", "kind": "own"|"parsyn"}
//   dataset: {"name", "local", "train": FILE, "validation": FILE, "validation_fraction", "split_seed"} where
//   FILE is
//            {"path", "labels_path", "format": "detect"|"idx"|"csv"|"jsonl"|"safetensors", "label_column"}
//   model:   {"name", "kind": "mlp", "sizes", "activation", "loss"}, {"name", "kind": "torchscript", "path",
//   "loss"},
//            {"name", "kind": "custom", "path", ...}, or {"name", "from_job", "from_round": N|"best"|null}
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parsyn/coordinator.hpp"
#include "wire/parsed.hpp"

namespace parsyn::wire {

inline constexpr std::size_t kPathBytesMax = 4'096;
inline constexpr std::size_t kLayersMax = 1'000;  ///< Entries of an mlp's `sizes`.
inline constexpr std::uint64_t kLayerWidthMax = 1ULL << 24;

Parsed<WorkerSpec> parse_worker_spec(std::string_view text);
Parsed<DatasetSpec> parse_dataset_spec(std::string_view text);
Parsed<ModelSpec> parse_model_spec(std::string_view text);

/// "3", "best", or empty for the last: the query parameter of GET .../model. Nothing for another text.
std::optional<RoundChoice> parse_round_choice(std::string_view text);

}  // namespace parsyn::wire
