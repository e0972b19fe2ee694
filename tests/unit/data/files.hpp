// Dataset files made by tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/dataset.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace parsyn::test {

/// As gzip(1) packs it.
inline std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib cannot pack");
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef *>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("zlib did not finish");
  return packed;
}

/// Reads `bytes` as a file of this name.
inline Examples read_bytes(const std::string &name, std::string_view bytes,
                           const std::string &label_column = {}) {
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.path = folder.file(name, bytes);
  options.label_column = label_column;
  return read_examples(options);
}

inline Error refusal(const std::string &name, std::string_view bytes, const std::string &label_column = {}) {
  return error_of([&] { read_bytes(name, bytes, label_column); });
}

/// The elements of a little-endian I64 tensor.
inline std::vector<std::int64_t> i64_elements(const Tensor &tensor) {
  std::vector<std::int64_t> elements(tensor.data.size() / 8);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(tensor.data[i]);
    elements[i / 8] =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(elements[i / 8]) | byte << (8 * (i % 8)));
  }
  return elements;
}

using Shape = std::vector<std::uint64_t>;
using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;

}  // namespace parsyn::test
