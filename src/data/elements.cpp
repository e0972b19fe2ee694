#include "data/elements.hpp"

#include <algorithm>

#include "parsyn/error.hpp"

namespace parsyn::data {
namespace {

/// The bits of a floating-point dtype that are all set in NaN and infinity only; 0 for other dtypes.
std::uint64_t exponent_bits(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return 0x7ff0000000000000;
    case Dtype::f32:
      return 0x7f800000;
    case Dtype::f16:
      return 0x7c00;
    case Dtype::bf16:
      return 0x7f80;
    default:
      return 0;
  }
}

bool is_signed(Dtype dtype) {
  return dtype == Dtype::i64 || dtype == Dtype::i32 || dtype == Dtype::i16 || dtype == Dtype::i8;
}

/// "element 2 of example 5".
std::string place_of(const Tensor &tensor, std::size_t element, std::size_t elements) {
  const std::size_t per_example =
      tensor.shape.empty() ? 1 : elements / static_cast<std::size_t>(tensor.shape[0]);
  return "element " + std::to_string(element % per_example) + " of example " +
         std::to_string(element / per_example);
}

}  // namespace

std::size_t element_bytes(Dtype dtype) {
  const unsigned bits = dtype_bits(dtype);
  if (bits == 0 || bits % 8 != 0) {
    throw Error(ErrorCode::unsupported,
                "examples of dtype " + std::string(dtype_name(dtype)) +
                    " are not supported; use F32, U8 or another dtype of whole bytes");
  }
  return bits / 8;
}

Tensor to_class_labels(const Tensor &integers, const std::string &where) {
  const std::size_t width = element_bytes(integers.dtype);
  Tensor labels{Dtype::i64, integers.shape, {}};
  labels.data.reserve(integers.data.size() / width * 8);
  for (std::size_t at = 0; at < integers.data.size(); at += width) {
    std::uint64_t bits = bits_at(integers.data, at, width);
    const std::uint64_t sign = std::uint64_t{1} << (8 * width - 1);
    if (is_signed(integers.dtype)) {
      bits = (bits ^ sign) - sign;
    } else if (width == 8 && (bits & sign) != 0) {
      throw Error(ErrorCode::corrupt_data, where + ": label " + std::to_string(bits) + " of example " +
                                               std::to_string(at / width) +
                                               " does not fit 64 bits with a sign");
    }
    append_element(labels.data, static_cast<std::int64_t>(bits));
  }
  return labels;
}

void check_finite(const Tensor &tensor, const std::string &where) {
  const std::uint64_t exponent = exponent_bits(tensor.dtype);
  if (exponent == 0) return;
  const std::size_t width = element_bytes(tensor.dtype);
  const std::size_t elements = tensor.data.size() / width;
  for (std::size_t i = 0; i < elements; ++i) {
    if ((bits_at(tensor.data, i * width, width) & exponent) != exponent) continue;
    throw Error(ErrorCode::corrupt_data, where + ": " + place_of(tensor, i, elements) +
                                             " is NaN or infinite; repair or leave out this example");
  }
}

void check_booleans(const Tensor &tensor, const std::string &where) {
  if (tensor.dtype != Dtype::boolean) return;
  const auto wrong = std::find_if(tensor.data.begin(), tensor.data.end(),
                                  [](std::byte byte) { return std::to_integer<unsigned>(byte) > 1; });
  if (wrong == tensor.data.end()) return;
  const auto at = static_cast<std::size_t>(wrong - tensor.data.begin());
  throw Error(ErrorCode::corrupt_data, where + ": " + place_of(tensor, at, tensor.data.size()) + " is " +
                                           std::to_string(std::to_integer<unsigned>(*wrong)) +
                                           "; a BOOL is 0 or 1, and numbers are stored as U8");
}

}  // namespace parsyn::data
