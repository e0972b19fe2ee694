#include <algorithm>
#include <string>
#include <utility>

#include "data/elements.hpp"
#include "parsyn/dataset.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn {
namespace data {
namespace {

void check_tensor(const Tensor &tensor, const char *name) {
  if (tensor.shape.empty()) {
    throw Error(ErrorCode::corrupt_data, std::string("examples: ") + name +
                                             " is a scalar; its first dimension must count the examples");
  }
  // Neither is bounded by the bytes when the other size is 0.
  if (tensor.shape[0] > limits::kDatasetExamplesMax) {
    throw Error(ErrorCode::too_large, std::string("examples: ") + name + " of shape " +
                                          shape_text(tensor.shape) + " holds more than " +
                                          std::to_string(limits::kDatasetExamplesMax) + " examples");
  }
  if (std::find(tensor.shape.begin() + 1, tensor.shape.end(), 0U) != tensor.shape.end()) {
    throw Error(ErrorCode::corrupt_data, std::string("examples: ") + name + " of shape " +
                                             shape_text(tensor.shape) +
                                             " has no elements in an example; every example needs numbers");
  }
  const std::uint64_t bytes = TensorSpec{name, tensor.dtype, tensor.shape}.byte_size();
  if (bytes != tensor.data.size()) {
    throw Error(ErrorCode::corrupt_data, std::string("examples: ") + name + " of shape " +
                                             shape_text(tensor.shape) + " needs " + std::to_string(bytes) +
                                             " bytes, but has " + std::to_string(tensor.data.size()));
  }
}

void check_examples(const Examples &examples) {
  check_tensor(examples.x, "x");
  check_tensor(examples.y, "y");
  if (examples.x.shape[0] != examples.y.shape[0]) {
    throw Error(ErrorCode::corrupt_data, "examples: x holds " + std::to_string(examples.x.shape[0]) +
                                             " examples, but y holds " + std::to_string(examples.y.shape[0]));
  }
}

Tensor take(StateDict &state, const char *name) {
  auto node = state.extract(name);
  if (node.empty()) {
    throw Error(ErrorCode::corrupt_data, std::string("examples: there is no tensor \"") + name +
                                             "\"; a dataset has the tensors \"x\" and \"y\"");
  }
  return std::move(node.mapped());
}

Tensor select_rows(const Tensor &tensor, std::span<const std::uint64_t> indices) {
  Tensor selected{tensor.dtype, tensor.shape, {}};
  selected.shape[0] = indices.size();
  element_bytes(tensor.dtype);
  const std::uint64_t row_bytes = tensor.shape[0] == 0 ? 0 : tensor.data.size() / tensor.shape[0];
  selected.data.reserve(static_cast<std::size_t>(row_bytes * indices.size()));
  for (const std::uint64_t index : indices) {
    const auto begin = tensor.data.begin() + static_cast<std::ptrdiff_t>(index * row_bytes);
    selected.data.insert(selected.data.end(), begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
  }
  return selected;
}

}  // namespace
}  // namespace data

std::vector<std::uint64_t> Examples::input_shape() const {
  if (x.shape.empty()) return {};
  return {x.shape.begin() + 1, x.shape.end()};
}

StateDict Examples::to_state_dict() const { return {{"x", x}, {"y", y}}; }

Examples Examples::from_state_dict(StateDict state) {
  Examples examples{data::take(state, "x"), data::take(state, "y")};
  if (!state.empty()) {
    throw Error(ErrorCode::corrupt_data, "examples: there is a tensor \"" + state.begin()->first +
                                             "\"; a dataset has the tensors \"x\" and \"y\" only");
  }
  data::check_examples(examples);
  return examples;
}

Examples Examples::select(std::span<const std::uint64_t> indices) const {
  data::check_examples(*this);
  for (const std::uint64_t index : indices) {
    if (index >= count()) {
      throw Error(
          ErrorCode::invalid_argument,
          "example " + std::to_string(index) + " is not there; the dataset has " + std::to_string(count()));
    }
  }
  return {data::select_rows(x, indices), data::select_rows(y, indices)};
}

DatasetShape shape_of(const Examples &examples) {
  data::check_examples(examples);
  DatasetShape shape;
  shape.num_examples = examples.count();
  shape.x_dtype = examples.x.dtype;
  shape.input_shape = examples.input_shape();
  shape.y_dtype = examples.y.dtype;
  shape.target_shape.assign(examples.y.shape.begin() + 1, examples.y.shape.end());
  if (examples.y.dtype != Dtype::i64 || !shape.target_shape.empty()) return shape;
  for (std::size_t at = 0; at < examples.y.data.size(); at += 8) {
    const auto label = static_cast<std::int64_t>(data::bits_at(examples.y.data, at, 8));
    shape.label_min = at == 0 ? label : std::min(shape.label_min, label);
    shape.label_max = at == 0 ? label : std::max(shape.label_max, label);
  }
  return shape;
}

std::vector<std::int64_t> class_labels(const Examples &examples) {
  if (examples.y.dtype != Dtype::i64 || examples.y.shape.size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "these examples have targets of dtype " + std::string(dtype_name(examples.y.dtype)) +
                    " and shape " + shape_text(examples.y.shape) + ", not class labels (I64 of shape [N])");
  }
  data::check_examples(examples);
  std::vector<std::int64_t> labels;
  labels.reserve(static_cast<std::size_t>(examples.count()));
  for (std::size_t at = 0; at < examples.y.data.size(); at += 8) {
    labels.push_back(static_cast<std::int64_t>(data::bits_at(examples.y.data, at, 8)));
  }
  return labels;
}

SplitExamples split_validation(const Examples &examples, double fraction, std::uint64_t seed) {
  const ValidationIndices indices = validation_indices(examples.count(), fraction, seed);
  return {examples.select(indices.training), examples.select(indices.validation)};
}

}  // namespace parsyn
