#include <memory>
#include <string>
#include <utility>

#include "data/elements.hpp"
#include "data/formats.hpp"
#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "system/files.hpp"
#include "system/interruptible.hpp"

namespace parsyn::data {
namespace {

void check_targets(const Tensor &y, const std::string &where) {
  if (y.dtype == Dtype::f32 || (y.dtype == Dtype::i64 && y.shape.size() == 1)) return;
  throw Error(ErrorCode::corrupt_data,
              where + ": y is " + std::string(dtype_name(y.dtype)) + " of shape " + shape_text(y.shape) +
                  "; store class labels as integers of shape [N], or targets as F32");
}

Examples read(const ByteSource &source, const std::string &where) {
  Examples examples = Examples::from_state_dict(read_safetensors(source));
  if (examples.count() == 0) throw Error(ErrorCode::corrupt_data, where + " holds no examples");
  check_booleans(examples.x, where + ": x");
  check_booleans(examples.y, where + ": y");
  if (is_integral(examples.y.dtype) && examples.y.shape.size() == 1)
    examples.y = to_class_labels(examples.y, where);
  check_targets(examples.y, where);
  // Refuses dtypes whose elements do not fill bytes.
  element_bytes(examples.x.dtype);
  check_finite(examples.x, where + ": x");
  check_finite(examples.y, where + ": y");
  return examples;
}

}  // namespace

Examples read_safetensors_examples(const DatasetFileOptions &options, const CancelQuery &cancelled) {
  const std::string where = options.path.string();
  const system::InterruptibleSource source(std::make_unique<system::FileSource>(options.path), cancelled);
  if (source.size() > options.bytes_max) {
    throw Error(ErrorCode::too_large, where + " has " + std::to_string(source.size()) +
                                          " bytes; a dataset file may have at most " +
                                          std::to_string(options.bytes_max));
  }
  try {
    return read(source, where);
  } catch (const Error &error) {
    // The codec sees bytes, not files: it cannot say which file it was.
    if (error.message().starts_with(where)) throw;
    throw Error(error.code(), where + ": " + error.message(), error.faults());
  }
}

}  // namespace parsyn::data
