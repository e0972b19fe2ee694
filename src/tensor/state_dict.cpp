#include "parsyn/state_dict.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "parsyn/error.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn {
namespace {

// Elements are moved between files and memory as they are. Where this fails, the codec needs a byte swap
// first.
static_assert(std::endian::native == std::endian::little,
              "parsyn holds tensors little-endian, as safetensors does");

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  unsigned bits;
};

constexpr std::array kDtypes{
    DtypeFacts{Dtype::f64, "F64", 64},
    DtypeFacts{Dtype::f32, "F32", 32},
    DtypeFacts{Dtype::f16, "F16", 16},
    DtypeFacts{Dtype::bf16, "BF16", 16},
    DtypeFacts{Dtype::i64, "I64", 64},
    DtypeFacts{Dtype::i32, "I32", 32},
    DtypeFacts{Dtype::i16, "I16", 16},
    DtypeFacts{Dtype::i8, "I8", 8},
    DtypeFacts{Dtype::u64, "U64", 64},
    DtypeFacts{Dtype::u32, "U32", 32},
    DtypeFacts{Dtype::u16, "U16", 16},
    DtypeFacts{Dtype::u8, "U8", 8},
    DtypeFacts{Dtype::boolean, "BOOL", 8},
    DtypeFacts{Dtype::f4, "F4", 4},
    DtypeFacts{Dtype::f6_e2m3, "F6_E2M3", 6},
    DtypeFacts{Dtype::f6_e3m2, "F6_E3M2", 6},
    DtypeFacts{Dtype::f8_e5m2, "F8_E5M2", 8},
    DtypeFacts{Dtype::f8_e4m3, "F8_E4M3", 8},
    DtypeFacts{Dtype::f8_e8m0, "F8_E8M0", 8},
    DtypeFacts{Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    DtypeFacts{Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    DtypeFacts{Dtype::c64, "C64", 64},
};

constexpr bool is_indexed_by_dtype() {
  for (std::size_t index = 0; index < kDtypes.size(); ++index) {
    if (static_cast<std::size_t>(kDtypes[index].dtype) != index) return false;
  }
  return true;
}
static_assert(is_indexed_by_dtype());

const DtypeFacts &facts(Dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::string_view dtype_name(Dtype dtype) { return facts(dtype).name; }

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (const DtypeFacts &known : kDtypes) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

unsigned dtype_bits(Dtype dtype) { return facts(dtype).bits; }

bool is_averaged(Dtype dtype) { return dtype <= Dtype::bf16; }

bool is_integral(Dtype dtype) { return dtype >= Dtype::i64 && dtype <= Dtype::boolean; }

std::uint64_t TensorSpec::element_count() const {
  // Strides are products of the dimensions other than 0, so those must fit even when the tensor is empty.
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0) {
      empty = true;
    } else if (product > UINT64_MAX / dimension) {
      throw Error(ErrorCode::corrupt_data, "tensor " + tensor::quoted_name(name) + " has shape " +
                                               shape_text(shape) +
                                               ", whose number of elements does not fit 64 bits");
    } else {
      product *= dimension;
    }
  }
  return empty ? 0 : product;
}

std::uint64_t TensorSpec::byte_size() const {
  const std::uint64_t elements = element_count();
  const std::uint64_t bits = dtype_bits(dtype);
  if (elements > UINT64_MAX / bits) {
    throw Error(ErrorCode::corrupt_data, "tensor " + tensor::quoted_name(name) + " has shape " +
                                             shape_text(shape) + " of " + std::string(dtype_name(dtype)) +
                                             ", whose size does not fit 64 bits");
  }
  if (elements * bits % 8 != 0) {
    throw Error(ErrorCode::corrupt_data, "tensor " + tensor::quoted_name(name) + " has shape " +
                                             shape_text(shape) + " of " + std::string(dtype_name(dtype)) +
                                             ", " + std::to_string(elements * bits) +
                                             " bits, which do not fill the last byte");
  }
  return elements * bits / 8;
}

std::string shape_text(const std::vector<std::uint64_t> &shape) {
  std::string text = "[";
  for (const std::uint64_t dimension : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dimension);
  }
  return text + "]";
}

Tensor make_f32_tensor(std::vector<std::uint64_t> shape, const std::vector<float> &elements) {
  std::uint64_t count = 0;
  try {
    count = TensorSpec{"", Dtype::f32, shape}.element_count();
  } catch (const Error &error) {
    throw Error(ErrorCode::invalid_argument, error.message());
  }
  if (count != elements.size()) {
    throw Error(ErrorCode::invalid_argument, "shape " + shape_text(shape) + " holds " +
                                                 std::to_string(count) + " elements, but " +
                                                 std::to_string(elements.size()) + " were given");
  }
  Tensor made{Dtype::f32, std::move(shape), std::vector<std::byte>(elements.size() * sizeof(float))};
  if (!elements.empty()) std::memcpy(made.data.data(), elements.data(), made.data.size());
  return made;
}

std::vector<float> f32_elements(const Tensor &tensor) {
  if (tensor.dtype != Dtype::f32) {
    throw Error(ErrorCode::invalid_argument, "the elements of an F32 tensor were asked for, but it is " +
                                                 std::string(dtype_name(tensor.dtype)));
  }
  if (tensor.data.size() % sizeof(float) != 0) {
    throw Error(ErrorCode::invalid_argument, "an F32 tensor has " + std::to_string(tensor.data.size()) +
                                                 " bytes, which is not a multiple of 4");
  }
  std::vector<float> elements(tensor.data.size() / sizeof(float));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.data.data(), tensor.data.size());
  return elements;
}

std::vector<TensorSpec> specs_of(const StateDict &state) {
  std::vector<TensorSpec> specs;
  specs.reserve(state.size());
  for (const auto &[name, tensor] : state) specs.push_back({name, tensor.dtype, tensor.shape});
  return specs;
}

}  // namespace parsyn
