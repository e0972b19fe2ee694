#include "aggregation/finite.hpp"

#include <algorithm>

namespace parsyn::aggregation {
namespace {

/// A float is NaN or infinite exactly when all bits of its exponent are set.
template <typename Bits>
std::optional<std::uint64_t> first_with_full_exponent(std::span<const std::byte> bytes, Bits exponent) {
  const Bits *elements = reinterpret_cast<const Bits *>(bytes.data());
  const std::size_t count = bytes.size() / sizeof(Bits);
  // The inner loop has no exit, so that it vectorises; the exact place is looked for only once it is known to
  // exist.
  constexpr std::size_t kRunElements = 4096;
  for (std::size_t begin = 0; begin < count; begin += kRunElements) {
    const std::size_t end = begin + std::min(kRunElements, count - begin);
    Bits found = 0;
    for (std::size_t index = begin; index < end; ++index) {
      found = static_cast<Bits>(found | static_cast<Bits>((elements[index] & exponent) == exponent));
    }
    if (found == 0) continue;
    for (std::size_t index = begin; index < end; ++index) {
      if ((elements[index] & exponent) == exponent) return index;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> first_not_finite(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::f64:
      return first_with_full_exponent<std::uint64_t>(bytes, 0x7FF0'0000'0000'0000);
    case Dtype::f32:
      return first_with_full_exponent<std::uint32_t>(bytes, 0x7F80'0000);
    case Dtype::f16:
      return first_with_full_exponent<std::uint16_t>(bytes, 0x7C00);
    case Dtype::bf16:
      return first_with_full_exponent<std::uint16_t>(bytes, 0x7F80);
    default:
      return std::nullopt;
  }
}

}  // namespace parsyn::aggregation
