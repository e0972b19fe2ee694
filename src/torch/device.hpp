// Where a trainer computes, and in which precision.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string_view>

namespace parsyn::torch {

/// "cpu" or "cuda:N". Throws Error: invalid_argument (another text), unsupported (no such device on this
/// machine).
at::Device device_of(std::string_view name);

/// While it lives, operations of this thread on `device` compute in bfloat16 where that is safe; weights and
/// gradients stay as they are. Does nothing when not `enabled`.
class AutocastScope {
 public:
  AutocastScope(at::Device device, bool enabled);
  ~AutocastScope();
  AutocastScope(const AutocastScope &) = delete;
  AutocastScope &operator=(const AutocastScope &) = delete;

 private:
  at::Device device_;
  bool active_;
  bool was_enabled_ = false;
  at::ScalarType former_type_ = at::kBFloat16;
};

/// Seconds of a 512 x 512 matrix product in F32, and in BF16.
struct ProductSeconds {
  double f32 = 0;
  double bf16 = 0;
};
ProductSeconds measure_products();

}  // namespace parsyn::torch
