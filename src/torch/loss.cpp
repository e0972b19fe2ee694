#include "torch/loss.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "parsyn/error.hpp"
#include "torch/state_dict_tensors.hpp"

namespace parsyn::torch {

namespace {

struct LabelRange {
  std::int64_t least = 0;
  std::int64_t greatest = 0;
};

LabelRange label_range(const Tensor &labels) {
  LabelRange range;
  for (std::size_t offset = 0; offset + sizeof(std::int64_t) <= labels.data.size();
       offset += sizeof(std::int64_t)) {
    std::int64_t label = 0;
    std::memcpy(&label, labels.data.data() + offset, sizeof label);
    range.least = std::min(range.least, label);
    range.greatest = std::max(range.greatest, label);
  }
  return range;
}

std::string text_of(at::IntArrayRef shape) { return shape_text({shape.begin(), shape.end()}); }

bool is_with_trailing_one(at::IntArrayRef longer, at::IntArrayRef shorter) {
  return longer.size() == shorter.size() + 1 && longer.back() == 1 &&
         longer.slice(0, shorter.size()) == shorter;
}

}  // namespace

Loss::Loss(const std::string &name) : has_classes_(name == "cross_entropy") {
  if (!has_classes_ && name != "mse")
    throw Error(ErrorCode::invalid_argument,
                "The model's loss '" + name + "' is neither \"cross_entropy\" nor \"mse\".");
}

void Loss::check_targets(const Examples &examples, std::string_view role) const {
  const std::string found = std::string(dtype_name(examples.y.dtype)) + " " + shape_text(examples.y.shape);
  const std::string subject = "The " + std::string(role) + " examples' targets";
  if (examples.y.shape.empty() || examples.y.shape[0] != examples.count())
    throw Error(ErrorCode::invalid_argument, subject + " are " + found + " for " +
                                                 std::to_string(examples.count()) +
                                                 " inputs; there must be one entry for each.");
  if (!has_classes_) {
    if (examples.y.dtype == Dtype::f32) return;
    throw Error(ErrorCode::invalid_argument, subject + " are " + found + "; the loss mse needs F32.");
  }
  if (examples.y.dtype != Dtype::i64 || examples.y.shape.size() != 1)
    throw Error(ErrorCode::invalid_argument, subject + " are " + found +
                                                 "; the loss cross_entropy needs class labels, I64 with one "
                                                 "dimension.");
  const LabelRange range = label_range(examples.y);
  if (range.least < 0)
    throw Error(ErrorCode::invalid_argument, "The " + std::string(role) + " examples have the label " +
                                                 std::to_string(range.least) + "; class labels start at 0.");
}

void Loss::check_output(at::IntArrayRef output_shape, const Examples &examples, std::string_view role) const {
  std::vector<std::int64_t> target_shape(examples.y.shape.begin(), examples.y.shape.end());
  if (!output_shape.empty()) target_shape[0] = output_shape[0];
  check_batch(output_shape, target_shape);
  if (!has_classes_) return;
  const LabelRange range = label_range(examples.y);
  if (range.greatest >= output_shape[1])
    throw Error(ErrorCode::invalid_argument,
                "The " + std::string(role) + " examples have the label " + std::to_string(range.greatest) +
                    ", but the model's output has " + std::to_string(output_shape[1]) + " classes, 0 to " +
                    std::to_string(output_shape[1] - 1) + ".");
}

void Loss::check_batch(at::IntArrayRef output_shape, at::IntArrayRef target_shape) const {
  if (has_classes_) {
    if (output_shape.size() == 2 && output_shape[0] == target_shape[0] && output_shape[1] > 0) return;
    throw Error(ErrorCode::invalid_argument,
                "The model's output for a batch has the shape " + text_of(output_shape) +
                    "; the loss cross_entropy needs [B, classes], here with B = " +
                    std::to_string(target_shape[0]) + ".");
  }
  if (output_shape == target_shape || is_with_trailing_one(output_shape, target_shape) ||
      is_with_trailing_one(target_shape, output_shape))
    return;
  throw Error(ErrorCode::invalid_argument, "The model's output for a batch has the shape " +
                                               text_of(output_shape) + " and its targets have " +
                                               text_of(target_shape) + "; the loss mse needs equal shapes.");
}

at::Tensor Loss::mean(const at::Tensor &output, const at::Tensor &target) const {
  check_batch(output.sizes(), target.sizes());
  const at::Tensor scores = output.to(at::kFloat);
  if (has_classes_) return at::cross_entropy_loss(scores, target);
  return at::mse_loss(scores.view_as(target), target);
}

double Loss::sum(const at::Tensor &output, const at::Tensor &target) const {
  check_batch(output.sizes(), target.sizes());
  const at::Tensor scores = output.to(at::kFloat);
  if (has_classes_)
    return at::cross_entropy_loss(scores, target, {}, at::Reduction::None).sum(at::kDouble).item<double>();
  const at::Tensor losses = at::mse_loss(scores.view_as(target), target, at::Reduction::None);
  return losses.mean(at::kDouble).item<double>() * static_cast<double>(target.size(0));
}

std::uint64_t Loss::count_right(const at::Tensor &output, const at::Tensor &target) {
  return static_cast<std::uint64_t>(output.argmax(1).eq(target).sum().item<std::int64_t>());
}

}  // namespace parsyn::torch
