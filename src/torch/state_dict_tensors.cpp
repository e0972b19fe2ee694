#include "torch/state_dict_tensors.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <string>

#include "parsyn/error.hpp"

namespace parsyn::torch {

at::ScalarType scalar_type_of(Dtype dtype, std::string_view name) {
  switch (dtype) {
    case Dtype::f64:
      return at::kDouble;
    case Dtype::f32:
      return at::kFloat;
    case Dtype::f16:
      return at::kHalf;
    case Dtype::bf16:
      return at::kBFloat16;
    case Dtype::i64:
      return at::kLong;
    case Dtype::i32:
      return at::kInt;
    case Dtype::i16:
      return at::kShort;
    case Dtype::i8:
      return at::kChar;
    case Dtype::u8:
      return at::kByte;
    case Dtype::boolean:
      return at::kBool;
    default:
      break;
  }
  throw Error(ErrorCode::unsupported, "Tensor '" + std::string(name) + "' is " +
                                          std::string(dtype_name(dtype)) +
                                          ", a type that this trainer cannot compute with.");
}

Dtype dtype_of(at::ScalarType type, std::string_view name) {
  switch (type) {
    case at::kDouble:
      return Dtype::f64;
    case at::kFloat:
      return Dtype::f32;
    case at::kHalf:
      return Dtype::f16;
    case at::kBFloat16:
      return Dtype::bf16;
    case at::kLong:
      return Dtype::i64;
    case at::kInt:
      return Dtype::i32;
    case at::kShort:
      return Dtype::i16;
    case at::kChar:
      return Dtype::i8;
    case at::kByte:
      return Dtype::u8;
    case at::kBool:
      return Dtype::boolean;
    default:
      break;
  }
  throw Error(ErrorCode::unsupported, "Tensor '" + std::string(name) + "' of the module is " +
                                          c10::toString(type) + ", a type that a state dict does not carry.");
}

std::vector<std::uint64_t> shape_of(const at::Tensor &tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.begin(), sizes.end()};
}

Tensor copy_out(const at::Tensor &tensor, std::string_view name) {
  const c10::NoGradGuard no_grad;
  if (tensor.layout() != at::kStrided)
    throw Error(ErrorCode::unsupported, "Tensor '" + std::string(name) +
                                            "' of the module is sparse; a state dict carries dense tensors.");
  Tensor result;
  result.dtype = dtype_of(tensor.scalar_type(), name);
  result.shape = shape_of(tensor);
  const at::Tensor rows = tensor.detach().to(at::kCPU).contiguous();
  result.data.resize(rows.nbytes());
  if (!result.data.empty()) std::memcpy(result.data.data(), rows.data_ptr(), result.data.size());
  return result;
}

at::Tensor view_of(const Tensor &source, std::string_view name) {
  const at::ScalarType type = scalar_type_of(source.dtype, name);
  const TensorSpec spec{std::string(name), source.dtype, source.shape};
  if (spec.byte_size() != source.data.size())
    throw Error(ErrorCode::invalid_argument,
                "Tensor '" + spec.name + "' of shape " + shape_text(source.shape) + " has " +
                    std::to_string(source.data.size()) + " bytes; its shape and type need " +
                    std::to_string(spec.byte_size()) + ".");
  const std::vector<std::int64_t> sizes(source.shape.begin(), source.shape.end());
  // from_blob takes no pointer to const; whoever asks for a view does not write through it.
  return at::from_blob(const_cast<std::byte *>(source.data.data()), sizes, at::TensorOptions(type));
}

void copy_in(const at::Tensor &target, const Tensor &source, std::string_view name) {
  const c10::NoGradGuard no_grad;
  target.copy_(view_of(source, name));
}

}  // namespace parsyn::torch
