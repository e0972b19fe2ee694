#include <algorithm>
#include <string>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "tensor/header_json.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn {
namespace {

constexpr std::uint64_t kAlignment = 8;

[[noreturn]] void refuse(const std::string &what) {
  throw Error(ErrorCode::invalid_argument, "a safetensors file cannot be written: " + what);
}

[[noreturn]] void refuse_limit(const std::string &what) {
  throw Error(ErrorCode::too_large, "a safetensors file cannot be written: " + what);
}

/// What a reader of parsyn would refuse is not written in the first place.
void check_spec(const TensorSpec &spec) {
  if (spec.name.empty()) refuse("a tensor has an empty name");
  if (spec.name == tensor::kMetadataKey) refuse("\"__metadata__\" is reserved and cannot name a tensor");
  if (spec.name.find('\0') != std::string::npos) {
    refuse("the name of tensor " + tensor::quoted_name(spec.name) + " contains a NUL");
  }
  if (spec.name.size() > limits::kTensorNameBytesMax) {
    refuse_limit("the name of tensor " + tensor::quoted_name(spec.name) + " has " +
                 std::to_string(spec.name.size()) + " bytes; the limit is " +
                 std::to_string(limits::kTensorNameBytesMax));
  }
  if (spec.shape.size() > limits::kTensorRankMax) {
    refuse_limit("tensor " + tensor::quoted_name(spec.name) + " has " + std::to_string(spec.shape.size()) +
                 " dimensions; the limit is " + std::to_string(limits::kTensorRankMax));
  }
}

/// byte_size() for a shape that the caller gave, rather than a file.
std::uint64_t byte_size_of(const TensorSpec &spec) {
  try {
    return spec.byte_size();
  } catch (const Error &error) {
    refuse(error.message());
  }
}

}  // namespace

SafetensorsLayout layout_safetensors(std::vector<TensorSpec> specs,
                                     const std::map<std::string, std::string> &metadata) {
  if (specs.size() > limits::kTensorsMax) {
    refuse_limit(std::to_string(specs.size()) + " tensors; the limit is " +
                 std::to_string(limits::kTensorsMax));
  }
  std::sort(specs.begin(), specs.end(), [](const TensorSpec &a, const TensorSpec &b) {
    return std::pair(dtype_bits(b.dtype), std::string_view(a.name)) <
           std::pair(dtype_bits(a.dtype), std::string_view(b.name));
  });
  tensor::HeaderJson header;
  for (const auto &[key, value] : metadata) {
    if (key.find('\0') != std::string::npos)
      refuse("metadata key " + tensor::quoted_name(key) + " contains a NUL");
  }
  header.metadata = metadata;
  std::uint64_t end = 0;
  header.tensors.reserve(specs.size());
  for (TensorSpec &spec : specs) {
    check_spec(spec);
    const std::uint64_t begin = end;
    const std::uint64_t bytes = byte_size_of(spec);
    if (bytes > UINT64_MAX / 2 - begin) refuse("all tensors together have more bytes than fit a file");
    end += bytes;
    header.tensors.push_back({std::move(spec), begin, end});
  }

  std::string json = tensor::header_json_text(header);
  // Data of aligned tensors begins at a multiple of 8 then, as the 8 bytes before the text keep the
  // alignment.
  json.append((kAlignment - json.size() % kAlignment) % kAlignment, ' ');
  if (json.size() > limits::kSafetensorsHeaderBytesMax) {
    refuse_limit("its header would have " + std::to_string(json.size()) + " bytes; the format's limit is " +
                 std::to_string(limits::kSafetensorsHeaderBytesMax));
  }
  SafetensorsLayout layout;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    layout.head += static_cast<char>(static_cast<unsigned char>(std::uint64_t{json.size()} >> shift & 0xFF));
  }
  layout.head += json;
  layout.file_bytes = layout.head.size() + end;
  layout.tensors.reserve(header.tensors.size());
  for (tensor::DeclaredTensor &declared : header.tensors) {
    layout.tensors.push_back(
        {std::move(declared.spec), layout.head.size() + declared.begin, declared.end - declared.begin});
  }

  std::vector<std::string_view> names;
  names.reserve(layout.tensors.size());
  for (const SafetensorsEntry &entry : layout.tensors) names.push_back(entry.spec.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse("tensor " + tensor::quoted_name(*twice) + " is there twice");
  return layout;
}

void write_safetensors(const StateDict &state, ByteSink &sink,
                       const std::map<std::string, std::string> &metadata) {
  const SafetensorsLayout layout = layout_safetensors(specs_of(state), metadata);
  // All sizes are checked before the first byte, so that a refusal leaves nothing behind.
  for (const SafetensorsEntry &entry : layout.tensors) {
    const std::size_t given = state.at(entry.spec.name).data.size();
    if (given != entry.bytes) {
      refuse("tensor " + tensor::quoted_name(entry.spec.name) + " of " +
             std::string(dtype_name(entry.spec.dtype)) + ' ' + shape_text(entry.spec.shape) + " needs " +
             std::to_string(entry.bytes) + " bytes, but has " + std::to_string(given));
    }
  }
  sink.write(std::as_bytes(std::span(layout.head)));
  for (const SafetensorsEntry &entry : layout.tensors) sink.write(state.at(entry.spec.name).data);
}

}  // namespace parsyn
