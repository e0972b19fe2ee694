// Elements as tensors hold them: little-endian, whatever the host's order is.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "parsyn/state_dict.hpp"

namespace parsyn::data {

template <std::unsigned_integral Bits>
void append_bits(std::vector<std::byte> &bytes, Bits bits) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(Bits));
  for (std::size_t i = 0; i < sizeof(Bits); ++i) bytes[at + i] = static_cast<std::byte>(bits >> (8 * i));
}

inline void append_element(std::vector<std::byte> &bytes, float value) {
  append_bits(bytes, std::bit_cast<std::uint32_t>(value));
}

inline void append_element(std::vector<std::byte> &bytes, std::int64_t value) {
  append_bits(bytes, static_cast<std::uint64_t>(value));
}

/// The `width` bytes at `at` as an unsigned number.
inline std::uint64_t bits_at(const std::vector<std::byte> &bytes, std::size_t at, std::size_t width) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < width; ++i) bits |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return bits;
}

/// Bytes of one element. Throws Error(unsupported) for dtypes whose elements do not fill bytes.
std::size_t element_bytes(Dtype dtype);

/// The class labels of a tensor of any integer dtype, as I64.
/// Throws Error(corrupt_data) with `where` for a U64 label that does not fit.
Tensor to_class_labels(const Tensor &integers, const std::string &where);

/// Throws Error(corrupt_data) with `where`, and the position of the element, for a NaN or an infinity in a
/// tensor of f64, f32, f16 or bf16.
void check_finite(const Tensor &tensor, const std::string &where);

/// Throws Error(corrupt_data) with `where`, and the position of the element, for a byte of a BOOL tensor that
/// is neither 0 nor 1.
void check_booleans(const Tensor &tensor, const std::string &where);

}  // namespace parsyn::data
