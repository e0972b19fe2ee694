// Bytes that are read by position and bytes that are written in order: what the pure layers see of files and
// memory.
//
// Thread-safety: read_at of one ByteSource may be called from several threads at once; a ByteSink has one
// writer. Lifetime: whoever creates a source or sink keeps it alive while it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace parsyn {

/// Whether whoever waits for the bytes has given up: then moving them ends with Error(cancelled). Quick;
/// asked again and again, from any thread. Empty: never.
using CancelQuery = std::function<bool()>;

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Total length in bytes; never changes.
  virtual std::uint64_t size() const = 0;

  /// Fills all of `out` from `offset`. Throws Error: corrupt_data when the range does not lie within size(),
  /// io.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;

  /// Appends all of `bytes`. Throws Error: io, too_large.
  virtual void write(std::span<const std::byte> bytes) = 0;
};

/// A view of bytes in memory, which must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::span<const std::byte> bytes_;
};

/// Collects in memory.
class MemorySink final : public ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte> &bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace parsyn
