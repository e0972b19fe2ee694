// Named tensors: what a model is to parsyn.
//
// A StateDict is the model's parameters and buffers by name, in memory. Elements lie in row-major order,
// little-endian, without padding, as in a safetensors file (https://github.com/huggingface/safetensors).
//
// Thread-safety: values; concurrent reads are fine, a write needs the caller's exclusion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parsyn {

/// The element types of safetensors 0.8. Those after `boolean` can be carried, but not aggregated.
enum class Dtype : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  c64,
};

/// As in a safetensors header: "F32", "BF16", "BOOL".
std::string_view dtype_name(Dtype dtype);
/// The inverse; nothing for an unknown name.
std::optional<Dtype> parse_dtype(std::string_view name);
unsigned dtype_bits(Dtype dtype);
/// f64, f32, f16, bf16: averaged in double precision.
bool is_averaged(Dtype dtype);
/// Integers and booleans: never pass through floating point.
bool is_integral(Dtype dtype);

/// What a tensor is, without its elements.
struct TensorSpec {
  std::string name = {};
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape = {};  ///< Empty: a scalar.

  /// Product of the shape, 1 for a scalar. Throws Error(corrupt_data) where it does not fit 64 bits.
  std::uint64_t element_count() const;
  /// In bytes. Throws Error(corrupt_data) on overflow, or where sub-byte elements do not fill the last byte.
  std::uint64_t byte_size() const;
  bool operator==(const TensorSpec &) const = default;
};

/// "[2, 3]", for messages.
std::string shape_text(const std::vector<std::uint64_t> &shape);

struct Tensor {
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape = {};
  std::vector<std::byte> data = {};  ///< Exactly spec().byte_size() bytes.

  bool operator==(const Tensor &) const = default;
};

/// A tensor of float32 with these elements. Throws Error(invalid_argument) when shape and count differ.
Tensor make_f32_tensor(std::vector<std::uint64_t> shape, const std::vector<float> &elements);
/// The elements of an F32 tensor. Throws Error(invalid_argument) for another dtype.
std::vector<float> f32_elements(const Tensor &tensor);

using StateDict = std::map<std::string, Tensor, std::less<>>;

/// The specs of all tensors, in name order.
std::vector<TensorSpec> specs_of(const StateDict &state);

}  // namespace parsyn
