#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "tensor/header_json.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn {
namespace {

constexpr std::uint64_t kPrefixBytes = 8;

[[noreturn]] void refuse(const std::string &what) {
  throw Error(ErrorCode::corrupt_data, "safetensors file: " + what);
}

std::uint64_t read_header_length(const ByteSource &source, const SafetensorsLimits &limits) {
  if (source.size() < kPrefixBytes) {
    refuse("it has " + std::to_string(source.size()) + " bytes; the header's length alone takes 8");
  }
  std::array<std::byte, kPrefixBytes> prefix{};
  source.read_at(0, prefix);
  std::uint64_t length = 0;
  for (std::size_t index = 0; index < kPrefixBytes; ++index) {
    length |= std::to_integer<std::uint64_t>(prefix[index]) << (8 * index);
  }
  if (length > source.size() - kPrefixBytes) {
    refuse("its header is said to have " + std::to_string(length) + " bytes, but only " +
           std::to_string(source.size() - kPrefixBytes) + " follow the first 8; it may be cut short");
  }
  if (length > limits.header_bytes_max) {
    throw Error(ErrorCode::too_large, "safetensors file: its header has " + std::to_string(length) +
                                          " bytes; the limit is " + std::to_string(limits.header_bytes_max));
  }
  return length;
}

std::string range_text(const tensor::DeclaredTensor &declared) {
  return shape_text({declared.begin, declared.end});
}

void check_sizes(const tensor::DeclaredTensor &declared, std::uint64_t data_bytes) {
  const auto name = [&] { return "tensor " + tensor::quoted_name(declared.spec.name); };
  const std::uint64_t needed = declared.spec.byte_size();
  if (declared.begin > declared.end) {
    refuse(name() + " has data_offsets " + range_text(declared) + ", which end before they begin");
  }
  if (declared.end > data_bytes) {
    refuse(name() + " has data_offsets " + range_text(declared) + ", but the file has " +
           std::to_string(data_bytes) + " bytes of data; it may be cut short");
  }
  if (declared.end - declared.begin != needed) {
    refuse(name() + " of " + std::string(dtype_name(declared.spec.dtype)) + ' ' +
           shape_text(declared.spec.shape) + " needs " + std::to_string(needed) +
           " bytes, but its data_offsets " + range_text(declared) + " hold " +
           std::to_string(declared.end - declared.begin));
  }
}

/// Sorted by offset, the tensors must start at 0, touch, and end at the end of the file: no byte belongs to
/// nobody, and none to two.
void check_coverage(const std::vector<tensor::DeclaredTensor> &tensors, std::uint64_t data_bytes) {
  std::vector<const tensor::DeclaredTensor *> by_offset;
  by_offset.reserve(tensors.size());
  for (const tensor::DeclaredTensor &declared : tensors) by_offset.push_back(&declared);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto *a, const auto *b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t covered = 0;
  for (const tensor::DeclaredTensor *declared : by_offset) {
    if (declared->begin != covered) {
      refuse("tensor " + tensor::quoted_name(declared->spec.name) + " begins at data offset " +
             std::to_string(declared->begin) + ", but the tensors before it end at " +
             std::to_string(covered) + (declared->begin > covered ? ": a gap" : ": an overlap"));
    }
    covered = declared->end;
  }
  if (covered != data_bytes) {
    refuse("its tensors end at data offset " + std::to_string(covered) + ", but the file has " +
           std::to_string(data_bytes) + " bytes of data");
  }
}

}  // namespace

const SafetensorsEntry *SafetensorsHeader::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const SafetensorsEntry &entry, std::string_view key) { return entry.spec.name < key; });
  return found != tensors.end() && found->spec.name == name ? &*found : nullptr;
}

std::vector<TensorSpec> SafetensorsHeader::specs() const {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const SafetensorsEntry &entry : tensors) specs.push_back(entry.spec);
  return specs;
}

SafetensorsHeader read_safetensors_header(const ByteSource &source, const SafetensorsLimits &limits) {
  const std::uint64_t length = read_header_length(source, limits);
  tensor::HeaderJson declared;
  {
    std::string text(static_cast<std::size_t>(length), '\0');
    source.read_at(kPrefixBytes, std::as_writable_bytes(std::span(text)));
    declared = tensor::parse_header_json(text, limits);
  }
  const std::uint64_t data_begin = kPrefixBytes + length;
  const std::uint64_t data_bytes = source.size() - data_begin;
  for (const tensor::DeclaredTensor &one : declared.tensors) check_sizes(one, data_bytes);
  check_coverage(declared.tensors, data_bytes);

  SafetensorsHeader header;
  header.file_bytes = source.size();
  header.metadata = std::move(declared.metadata);
  header.tensors.reserve(declared.tensors.size());
  for (tensor::DeclaredTensor &one : declared.tensors) {
    header.tensors.push_back({std::move(one.spec), data_begin + one.begin, one.end - one.begin});
  }
  return header;
}

StateDict read_safetensors(const ByteSource &source, const SafetensorsLimits &limits) {
  const SafetensorsHeader header = read_safetensors_header(source, limits);
  StateDict state;
  for (const SafetensorsEntry &entry : header.tensors) {
    Tensor tensor{entry.spec.dtype, entry.spec.shape,
                  std::vector<std::byte>(static_cast<std::size_t>(entry.bytes))};
    source.read_at(entry.begin, tensor.data);
    state.emplace_hint(state.end(), entry.spec.name, std::move(tensor));
  }
  return state;
}

}  // namespace parsyn
