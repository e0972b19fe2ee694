// A set of examples where the model computes, in batches of the type that the model takes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "parsyn/dataset.hpp"

namespace parsyn::torch {

struct Batch {
  at::Tensor input;  ///< [B, ...]: F32, with U8 scaled to [0, 1]; or I64 as it is.
  at::Tensor target;
};

class DeviceExamples {
 public:
  /// On the CPU a view: `examples` outlives it. Throws Error(invalid_argument) for inputs of another type.
  DeviceExamples(const Examples &examples, at::Device device);

  std::uint64_t count() const { return count_; }
  /// Examples first to first + count - 1.
  Batch slice(std::uint64_t first, std::uint64_t count) const;
  /// The examples at these positions. Valid until the next call with as many positions, which overwrites it.
  const Batch &gather(const std::vector<std::uint64_t> &positions);

 private:
  std::uint64_t count_;
  at::Tensor inputs_;  ///< As stored: bytes stay bytes, a quarter of the memory.
  at::Tensor targets_;
  at::Tensor raw_batch_;
  Batch batch_;
};

}  // namespace parsyn::torch
