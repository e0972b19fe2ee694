// A source from its beginning to its end, in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parsyn/bytes.hpp"

namespace parsyn::system {

/// Calls `take` with each piece of at most `block_bytes` and its offset, in order.
template <typename Take>
void for_each_block(const ByteSource &source, std::size_t block_bytes, const Take &take) {
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, source.size())));
  for (std::uint64_t offset = 0; offset < source.size();) {
    const auto bytes = std::min<std::uint64_t>(buffer.size(), source.size() - offset);
    const std::span piece(buffer.data(), static_cast<std::size_t>(bytes));
    source.read_at(offset, piece);
    take(std::span<const std::byte>(piece), offset);
    offset += bytes;
  }
}

}  // namespace parsyn::system
