// State dict tensors <-> libtorch's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string_view>
#include <vector>

#include "parsyn/state_dict.hpp"

namespace parsyn::torch {

/// Throws Error(unsupported), with `name`, for a type that libtorch of all supported versions does not have.
at::ScalarType scalar_type_of(Dtype dtype, std::string_view name);
/// Throws Error(unsupported), with `name`, for quantised, complex and other types that a state dict does not
/// carry.
Dtype dtype_of(at::ScalarType type, std::string_view name);

std::vector<std::uint64_t> shape_of(const at::Tensor &tensor);

/// The elements in row-major order, whatever the tensor's strides and device.
Tensor copy_out(const at::Tensor &tensor, std::string_view name);
/// Overwrites `target`, which keeps its strides and device. Type and shape are the same already.
void copy_in(const at::Tensor &target, const Tensor &source, std::string_view name);
/// A tensor on the CPU over the elements of `source`, without a copy, to be read only.
at::Tensor view_of(const Tensor &source, std::string_view name);

}  // namespace parsyn::torch
