// Half-precision floats as bits: F16 (IEEE 754 binary16) and BF16 (the upper half of a binary32).
//
// Widening is exact. Narrowing rounds once, to nearest, ties to even, and starts from double: a float is a
// double, whereas a double that is rounded to float first may end up one unit away. Only integer operations
// touch subnormal numbers, so a host that flushes them to zero in its floating-point unit does not change a
// result.
#pragma once

#include <bit>
#include <cstdint>

namespace parsyn::tensor {

inline float f32_from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// Written without branches, so that a loop over it vectorises.
inline float f32_from_f16(std::uint16_t bits) {
  constexpr std::uint32_t kBiasDifference = (127 - 15) << 23;
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16;
  const std::uint32_t magnitude = std::uint32_t{bits} & 0x7FFFu;
  const std::uint32_t normal = (magnitude << 13) + kBiasDifference;
  // The largest exponent, of infinities and NaNs, stays the largest.
  const std::uint32_t extreme = normal + (magnitude >= 0x7C00u ? kBiasDifference : 0u);
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : extreme));
}

/// `value` as a float of 1 + kExponentBits + kFractionBits = 16 bits. Too large becomes infinity; a NaN stays
/// one, quiet.
template <unsigned kExponentBits, unsigned kFractionBits>
std::uint16_t narrowed(double value) {
  static_assert(1 + kExponentBits + kFractionBits == 16);
  constexpr unsigned kDoubleFractionBits = 52;
  constexpr std::uint64_t kHiddenBit = std::uint64_t{1} << kDoubleFractionBits;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr std::uint64_t kInfinity = ((std::uint64_t{1} << kExponentBits) - 1) << kFractionBits;
  constexpr std::uint64_t kDoubleInfinity = std::uint64_t{0x7FF} << kDoubleFractionBits;

  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = bits >> 63 << 15;
  const std::uint64_t magnitude = bits & (UINT64_MAX >> 1);
  if (magnitude > kDoubleInfinity) {
    constexpr std::uint64_t kQuiet = std::uint64_t{1} << (kFractionBits - 1);
    const std::uint64_t payload = (magnitude & (kHiddenBit - 1)) >> (kDoubleFractionBits - kFractionBits);
    return static_cast<std::uint16_t>(sign | kInfinity | kQuiet | payload);
  }
  const int exponent = static_cast<int>(magnitude >> kDoubleFractionBits) - 1023;
  if (exponent > kBias) return static_cast<std::uint16_t>(sign | kInfinity);

  const bool subnormal = exponent < 1 - kBias;
  const unsigned shift =
      kDoubleFractionBits - kFractionBits + (subnormal ? static_cast<unsigned>(1 - kBias - exponent) : 0);
  // Less than half of the smallest number. A subnormal double, which has no hidden bit, always ends here.
  if (shift > kDoubleFractionBits + 1) return static_cast<std::uint16_t>(sign);
  const std::uint64_t significand = (magnitude & (kHiddenBit - 1)) | kHiddenBit;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t rest = significand & (2 * half - 1);
  std::uint64_t kept = significand >> shift;
  if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  // A carry out of the fraction goes into the exponent, and from the largest number to infinity, as it
  // should.
  if (!subnormal) kept += static_cast<std::uint64_t>(exponent + kBias - 1) << kFractionBits;
  return static_cast<std::uint16_t>(sign | kept);
}

inline std::uint16_t f16_from_f64(double value) { return narrowed<5, 10>(value); }
inline std::uint16_t bf16_from_f64(double value) { return narrowed<8, 7>(value); }
inline std::uint16_t f16_from_f32(float value) { return f16_from_f64(static_cast<double>(value)); }
inline std::uint16_t bf16_from_f32(float value) { return bf16_from_f64(static_cast<double>(value)); }

}  // namespace parsyn::tensor
