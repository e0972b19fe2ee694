// The bytes of a dataset file from the beginning to the end, unpacked when the file is gzipped (RFC 1952).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "system/files.hpp"

namespace parsyn::data {

/// Whether a file's first bytes are those of gzip with deflate.
bool is_gzip(std::span<const std::byte> head);

/// Never holds more than two pieces of the file, whatever sizes it claims; counts what it unpacks as it
/// grows.
class ByteReader {
 public:
  /// `bytes_max`: of unpacked bytes. Throws Error: not_found, invalid_argument, io, too_large.
  ByteReader(const std::filesystem::path &path, std::uint64_t bytes_max, CancelQuery cancelled = {});
  ~ByteReader();
  ByteReader(const ByteReader &) = delete;
  ByteReader &operator=(const ByteReader &) = delete;

  /// What follows, never empty before the end; valid until the next call. It counts as read.
  /// Throws Error: corrupt_data (a broken or cut gzip stream), too_large, io, cancelled.
  std::span<const std::byte> next_piece();
  /// Fills `out` as far as the file reaches; returns how much that was.
  std::size_t read(std::span<std::byte> out);
  /// The next byte, or -1 at the end.
  int get() {
    if (pending_.empty() && !refill()) return -1;
    const auto byte = static_cast<unsigned char>(pending_.front());
    pending_ = pending_.subspan(1);
    return byte;
  }
  /// Without reading it.
  int peek() { return pending_.empty() && !refill() ? -1 : static_cast<unsigned char>(pending_.front()); }

  /// The file's path, for messages.
  std::string name() const { return path_.string(); }
  bool is_gzipped() const { return inflater_ != nullptr; }
  /// As it lies on the disk.
  std::uint64_t file_bytes() const { return source_.size(); }

 private:
  struct Inflater;

  bool refill();
  bool refill_plain();
  bool refill_packed();
  std::span<const std::byte> read_piece();

  std::filesystem::path path_;
  std::uint64_t bytes_max_;
  CancelQuery cancelled_;
  system::FileSource source_;
  std::uint64_t offset_ = 0;    // of the next piece in the file
  std::uint64_t produced_ = 0;  // unpacked bytes so far
  std::vector<std::byte> piece_;
  std::vector<std::byte> unpacked_;
  std::span<const std::byte> pending_;
  std::unique_ptr<Inflater> inflater_;  // null for a plain file
};

}  // namespace parsyn::data
