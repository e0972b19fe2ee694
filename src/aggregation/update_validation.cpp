// why_update_is_refused: the whole update is judged before any of it counts.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/finite.hpp"
#include "aggregation/schema.hpp"
#include "parsyn/aggregator.hpp"
#include "parsyn/error.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn {
namespace {

/// Read and scanned at once; a multiple of every element's size, small enough to stay in a core's cache.
constexpr std::uint64_t kScanBytes = std::uint64_t{256} << 10;

struct Block {
  const SafetensorsEntry *entry;
  std::uint64_t first_byte;  ///< Within the tensor.
};

struct BadElement {
  std::size_t block;
  std::uint64_t index;  ///< Within the block.
};

std::vector<Block> blocks_to_scan(const SafetensorsHeader &header) {
  std::vector<Block> blocks;
  for (const SafetensorsEntry &entry : header.tensors) {
    if (!is_averaged(entry.spec.dtype)) continue;
    for (std::uint64_t first = 0; first < entry.bytes; first += kScanBytes) blocks.push_back({&entry, first});
  }
  return blocks;
}

std::string why_values_are_refused(const ByteSource &update, const SafetensorsHeader &header,
                                   Executor &executor) {
  const std::vector<Block> blocks = blocks_to_scan(header);
  if (blocks.empty()) return "";
  // Piece p takes blocks p, p + pieces, ... with one buffer, and stops at its first bad element; the first of
  // all is then the first of these.
  const std::size_t pieces = std::min<std::size_t>(std::max(1u, executor.concurrency()), blocks.size());
  std::vector<std::optional<BadElement>> found(pieces);
  executor.run(pieces, [&](std::size_t piece) {
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kScanBytes);
    for (std::size_t block = piece; block < blocks.size(); block += pieces) {
      const auto &[entry, first_byte] = blocks[block];
      const std::span bytes(buffer.get(),
                            static_cast<std::size_t>(std::min(kScanBytes, entry->bytes - first_byte)));
      update.read_at(entry->begin + first_byte, bytes);
      if (const auto index = aggregation::first_not_finite(entry->spec.dtype, bytes)) {
        found[piece] = BadElement{block, *index};
        return;
      }
    }
  });
  std::optional<BadElement> first;
  for (const std::optional<BadElement> &one : found) {
    if (one && (!first || one->block < first->block)) first = one;
  }
  if (!first) return "";
  const Block &block = blocks[first->block];
  const TensorSpec &spec = block.entry->spec;
  const std::uint64_t index = block.first_byte / (dtype_bits(spec.dtype) / 8) + first->index;
  return "tensor " + tensor::quoted_name(spec.name) + " is not finite (NaN or infinity) at index " +
         std::to_string(index) + " of its " + std::to_string(spec.element_count()) + " elements";
}

}  // namespace

std::string why_update_is_refused(const ByteSource &update, const std::vector<TensorSpec> &expected,
                                  Executor &executor, const ValidationLimits &limits) {
  try {
    const SafetensorsHeader header = read_safetensors_header(update, limits.header);
    std::string reason = aggregation::why_schema_differs(header, expected);
    if (reason.empty()) reason = why_values_are_refused(update, header, executor);
    return reason;
  } catch (const Error &error) {
    if (error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::too_large)
      return error.message();
    throw;
  }
}

}  // namespace parsyn
