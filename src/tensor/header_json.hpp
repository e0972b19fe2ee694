// The JSON text of a safetensors header, both ways. Only what the text itself says is checked here; whether
// offsets and sizes fit the file is checked by the reader.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/safetensors.hpp"

namespace parsyn::tensor {

/// The reserved key: no tensor has this name.
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct DeclaredTensor {
  TensorSpec spec;
  std::uint64_t begin = 0;  ///< Relative to the data area, as declared.
  std::uint64_t end = 0;
};

struct HeaderJson {
  std::vector<DeclaredTensor> tensors;  ///< In name order, without duplicates.
  std::map<std::string, std::string> metadata;
};

/// Parses without a document tree: memory stays in proportion to the text. `text` is the header with its
/// padding. Throws Error: corrupt_data (what is wrong, and in which tensor), too_large (a limit).
HeaderJson parse_header_json(std::string_view text, const SafetensorsLimits &limits);

/// Compact JSON, metadata first, tensors in the given order. Throws Error(invalid_argument) for text that is
/// not UTF-8.
std::string header_json_text(const HeaderJson &header);

}  // namespace parsyn::tensor
