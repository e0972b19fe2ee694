#include "torch/device_examples.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <string>

#include "parsyn/error.hpp"
#include "torch/state_dict_tensors.hpp"

namespace parsyn::torch {

namespace {

constexpr double kByteMax = 255.0;

bool is_supported(Dtype dtype) { return dtype == Dtype::u8 || dtype == Dtype::f32 || dtype == Dtype::i64; }

void check_inputs(const Examples &examples) {
  if (!is_supported(examples.x.dtype))
    throw Error(ErrorCode::invalid_argument, "The examples' inputs are " +
                                                 std::string(dtype_name(examples.x.dtype)) +
                                                 "; a model takes F32, U8 or I64.");
}

}  // namespace

DeviceExamples::DeviceExamples(const Examples &examples, at::Device device) : count_(examples.count()) {
  check_inputs(examples);
  inputs_ = view_of(examples.x, "x").to(device);
  targets_ = view_of(examples.y, "y").to(device);
}

Batch DeviceExamples::slice(std::uint64_t first, std::uint64_t count) const {
  const auto from = static_cast<std::int64_t>(first);
  const auto length = static_cast<std::int64_t>(count);
  at::Tensor input = inputs_.narrow(0, from, length);
  if (input.scalar_type() == at::kByte) input = input.to(at::kFloat).div_(kByteMax);
  return {input, targets_.narrow(0, from, length)};
}

const Batch &DeviceExamples::gather(const std::vector<std::uint64_t> &positions) {
  const auto count = static_cast<std::int64_t>(positions.size());
  const bool is_bytes = inputs_.scalar_type() == at::kByte;
  if (!batch_.input.defined() || batch_.input.size(0) != count) {
    const auto sized = [count](const at::Tensor &like) {
      auto sizes = like.sizes().vec();
      sizes[0] = count;
      return at::empty(sizes, like.options());
    };
    raw_batch_ = sized(inputs_);
    batch_.input = is_bytes ? at::empty_like(raw_batch_, raw_batch_.options().dtype(at::kFloat)) : raw_batch_;
    batch_.target = sized(targets_);
  }
  // Positions are below 2^63, so unsigned and signed have the same bits.
  const at::Tensor index =
      at::from_blob(const_cast<std::uint64_t *>(positions.data()), {count}, at::TensorOptions(at::kLong))
          .to(inputs_.device());
  at::index_select_out(raw_batch_, inputs_, 0, index);
  at::index_select_out(batch_.target, targets_, 0, index);
  if (is_bytes) batch_.input.copy_(raw_batch_).div_(kByteMax);
  return batch_;
}

}  // namespace parsyn::torch
