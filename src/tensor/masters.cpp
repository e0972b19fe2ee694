#include "tensor/masters.hpp"

#include <cstring>
#include <utility>

#include "parsyn/error.hpp"
#include "tensor/half.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn::tensor {
namespace {

std::vector<std::byte> widened(const std::vector<std::byte> &halves, float (*widen)(std::uint16_t)) {
  const std::size_t count = halves.size() / sizeof(std::uint16_t);
  std::vector<std::byte> floats(count * sizeof(float));
  for (std::size_t index = 0; index < count; ++index) {
    std::uint16_t half = 0;
    std::memcpy(&half, halves.data() + index * sizeof half, sizeof half);
    const float value = widen(half);
    std::memcpy(floats.data() + index * sizeof value, &value, sizeof value);
  }
  return floats;
}

}  // namespace

StateDict widen_to_f32_masters(StateDict state) {
  for (auto &[name, tensor] : state) {
    if (tensor.dtype != Dtype::f16 && tensor.dtype != Dtype::bf16) continue;
    const std::uint64_t bytes = TensorSpec{name, tensor.dtype, tensor.shape}.byte_size();
    if (tensor.data.size() != bytes) {
      throw Error(ErrorCode::invalid_argument, "tensor " + quoted_name(name) + " needs " +
                                                   std::to_string(bytes) + " bytes for its shape, but has " +
                                                   std::to_string(tensor.data.size()));
    }
    tensor.data = widened(tensor.data, tensor.dtype == Dtype::f16 ? f32_from_f16 : f32_from_bf16);
    tensor.dtype = Dtype::f32;
  }
  return state;
}

}  // namespace parsyn::tensor
