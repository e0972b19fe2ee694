// Bytes that take long to move, given up in the middle when nobody waits for them any more: what bounds
// stop() while a dataset is read, or a model averaged.
//
// Thread-safety: as the source or sink below; `cancelled` is asked from whichever thread reads or writes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "parsyn/bytes.hpp"
#include "parsyn/error.hpp"

namespace parsyn::system {

/// `cancelled` is asked before each piece of so many bytes.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

/// Throws Error(cancelled) where it says so.
inline void check_wanted(const CancelQuery &cancelled) {
  if (cancelled && cancelled())
    throw Error(ErrorCode::cancelled, "given up, as nobody waits for it any more");
}

/// A source that throws Error(cancelled) once `cancelled` says so.
class InterruptibleSource final : public ByteSource {
 public:
  InterruptibleSource(std::unique_ptr<ByteSource> source, CancelQuery cancelled)
      : source_(std::move(source)), cancelled_(std::move(cancelled)) {}
  /// `stopping` outlives it.
  InterruptibleSource(std::unique_ptr<ByteSource> source, const std::atomic<bool> &stopping)
      : InterruptibleSource(std::move(source), CancelQuery([&stopping] { return stopping.load(); })) {}

  std::uint64_t size() const override { return source_->size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    do {
      check_wanted(cancelled_);
      const auto piece = out.first(std::min(out.size(), kPieceBytes));
      source_->read_at(offset, piece);
      offset += piece.size();
      out = out.subspan(piece.size());
    } while (!out.empty());
  }

 private:
  std::unique_ptr<ByteSource> source_;
  CancelQuery cancelled_;
};

/// A sink that throws Error(cancelled) once `cancelled` says so. `below` outlives it.
class InterruptibleSink final : public ByteSink {
 public:
  InterruptibleSink(ByteSink &below, CancelQuery cancelled)
      : below_(below), cancelled_(std::move(cancelled)) {}

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      check_wanted(cancelled_);
      const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      below_.write(piece);
      bytes = bytes.subspan(piece.size());
    }
  }

 private:
  ByteSink &below_;
  CancelQuery cancelled_;
};

}  // namespace parsyn::system
