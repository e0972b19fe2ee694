#include "data/byte_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "parsyn/error.hpp"
#include "system/interruptible.hpp"

namespace parsyn::data {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

}  // namespace

bool is_gzip(std::span<const std::byte> head) {
  return head.size() >= 3 && head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b} &&
         head[2] == std::byte{0x08};
}

struct ByteReader::Inflater {
  z_stream stream{};
  bool in_member = true;  // false between two members, where the file may end

  explicit Inflater(const std::string &name) {
    // 16 more than the window: gzip's head and checksum are read and checked.
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
      throw Error(ErrorCode::internal, "zlib cannot unpack " + name);
  }
  ~Inflater() { inflateEnd(&stream); }
};

ByteReader::ByteReader(const std::filesystem::path &path, std::uint64_t bytes_max, CancelQuery cancelled)
    : path_(path),
      bytes_max_(bytes_max),
      cancelled_(std::move(cancelled)),
      source_(path),
      piece_(kPieceBytes) {
  std::array<std::byte, 3> head{};
  if (source_.size() >= head.size()) {
    source_.read_at(0, head);
    if (is_gzip(head)) {
      inflater_ = std::make_unique<Inflater>(name());
      unpacked_.resize(kPieceBytes);
    }
  }
  if (source_.size() > bytes_max_) {
    throw Error(ErrorCode::too_large, name() + " has " + std::to_string(source_.size()) +
                                          " bytes; a dataset file may have at most " +
                                          std::to_string(bytes_max_));
  }
}

ByteReader::~ByteReader() = default;

std::span<const std::byte> ByteReader::read_piece() {
  const std::uint64_t bytes = std::min<std::uint64_t>(piece_.size(), source_.size() - offset_);
  const std::span piece(piece_.data(), static_cast<std::size_t>(bytes));
  source_.read_at(offset_, piece);
  offset_ += bytes;
  return piece;
}

bool ByteReader::refill() {
  system::check_wanted(cancelled_);
  return inflater_ ? refill_packed() : refill_plain();
}

bool ByteReader::refill_plain() {
  pending_ = read_piece();
  return !pending_.empty();
}

bool ByteReader::refill_packed() {
  z_stream &stream = inflater_->stream;
  stream.next_out = reinterpret_cast<Bytef *>(unpacked_.data());
  stream.avail_out = static_cast<uInt>(unpacked_.size());
  while (stream.avail_out == unpacked_.size()) {
    if (stream.avail_in == 0) {
      const std::span<const std::byte> piece = read_piece();
      if (piece.empty()) {
        if (!inflater_->in_member) return false;
        throw Error(ErrorCode::corrupt_data, name() + ": the gzip stream is cut off after " +
                                                 std::to_string(produced_) +
                                                 " unpacked bytes; fetch the file again");
      }
      // zlib's interface is older than const.
      stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(piece.data()));
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    if (!inflater_->in_member) {
      // A gzip file may be several members, one after the other.
      inflateReset(&stream);
      inflater_->in_member = true;
    }
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      inflater_->in_member = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      const std::string reason = stream.msg != nullptr ? stream.msg : "error " + std::to_string(result);
      throw Error(ErrorCode::corrupt_data, name() + ": the gzip stream is broken after " +
                                               std::to_string(produced_) + " unpacked bytes (" + reason +
                                               "); fetch the file again");
    }
  }
  const std::size_t bytes = unpacked_.size() - stream.avail_out;
  produced_ += bytes;
  if (produced_ > bytes_max_) {
    throw Error(ErrorCode::too_large, name() + " unpacks to more than " + std::to_string(bytes_max_) +
                                          " bytes, the most that a dataset file may have");
  }
  pending_ = std::span<const std::byte>(unpacked_).first(bytes);
  return true;
}

std::span<const std::byte> ByteReader::next_piece() {
  if (pending_.empty()) refill();
  return std::exchange(pending_, {});
}

std::size_t ByteReader::read(std::span<std::byte> out) {
  std::size_t filled = 0;
  while (filled < out.size() && (!pending_.empty() || refill())) {
    const std::size_t bytes = std::min(pending_.size(), out.size() - filled);
    std::memcpy(out.data() + filled, pending_.data(), bytes);
    pending_ = pending_.subspan(bytes);
    filled += bytes;
  }
  return filled;
}

}  // namespace parsyn::data
