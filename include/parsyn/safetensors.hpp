// The safetensors codec: 8 bytes little-endian header length N, N bytes of JSON, then the elements.
//
// Reading validates everything that the format asks for before a size from the file is used: header length,
// UTF-8, duplicate and unknown keys, dtypes, shapes, offsets that start at 0, touch, and end exactly at the
// end of the file. Every malformation is an Error(corrupt_data) that names the tensor and both numbers.
// Nothing larger than the file is ever allocated.
//
// Thread-safety: free functions without state. Source of the rules: safetensors 0.8, README and reference
// reader.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/bytes.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/state_dict.hpp"

namespace parsyn {

struct SafetensorsLimits {
  std::uint64_t header_bytes_max = limits::kSafetensorsHeaderBytesMax;
  std::uint64_t tensors_max = limits::kTensorsMax;
  std::uint64_t name_bytes_max = limits::kTensorNameBytesMax;
  std::uint32_t rank_max = limits::kTensorRankMax;
};

struct SafetensorsEntry {
  TensorSpec spec = {};
  std::uint64_t begin = 0;  ///< Absolute offset in the file of the first element's first byte.
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors = {};  ///< In name order.
  std::map<std::string, std::string> metadata = {};
  std::uint64_t file_bytes = 0;

  /// Null when there is no tensor of this name.
  const SafetensorsEntry *find(std::string_view name) const;
  std::vector<TensorSpec> specs() const;
};

/// Reads and validates the header against the source's size.
/// Throws Error: corrupt_data, too_large (a limit), io.
SafetensorsHeader read_safetensors_header(const ByteSource &source, const SafetensorsLimits &limits = {});

/// Reads the whole file into memory.
StateDict read_safetensors(const ByteSource &source, const SafetensorsLimits &limits = {});

/// Where each tensor lies in a file that a writer of parsyn makes: by descending element size, then by name.
struct SafetensorsLayout {
  std::string head;                       ///< The 8 length bytes and the padded JSON header.
  std::vector<SafetensorsEntry> tensors;  ///< In file order, with absolute offsets.
  std::uint64_t file_bytes = 0;
};

/// Equal specs and metadata give equal bytes. Throws Error: invalid_argument (duplicate or empty name, NUL,
/// text that is not UTF-8), too_large (a limit).
SafetensorsLayout layout_safetensors(std::vector<TensorSpec> specs,
                                     const std::map<std::string, std::string> &metadata = {});

/// Writes the file to `sink`, streaming. Throws Error: invalid_argument (data does not fit its shape), io.
void write_safetensors(const StateDict &state, ByteSink &sink,
                       const std::map<std::string, std::string> &metadata = {});

}  // namespace parsyn
