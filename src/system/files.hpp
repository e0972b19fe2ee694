// Files: the only code of parsyn that opens, renames and flushes them. Every error is an Error(io) or
// Error(not_found) with the path and the system's own sentence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "parsyn/bytes.hpp"

namespace parsyn::system {

/// An open file, read by position (pread), several threads at once.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path &path);
  ~FileSource() override;
  FileSource(const FileSource &) = delete;
  FileSource &operator=(const FileSource &) = delete;
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A file that appears under its name as a whole: written beside it under a temporary name, flushed
/// (fdatasync), renamed, and its folder flushed. Destroyed without commit(), nothing is left.
class AtomicFile final : public ByteSink {
 public:
  /// `mode`: permission bits of the new file.
  explicit AtomicFile(std::filesystem::path path, unsigned mode = 0644);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  void write(std::span<const std::byte> bytes) override;
  void commit();
  std::uint64_t bytes_written() const { return written_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
};

/// A suffix that no finished file of parsyn has: leftovers of a crash are known by it.
inline constexpr std::string_view kTemporaryMark = ".parsyn-tmp-";

std::string read_text_file(const std::filesystem::path &path, std::uint64_t bytes_max);
void write_text_file(const std::filesystem::path &path, std::string_view text, unsigned mode = 0644);
void make_folders(const std::filesystem::path &folder);
/// Flushes the folder's own entry list, so that a rename in it survives a power loss.
void flush_folder(const std::filesystem::path &folder);

}  // namespace parsyn::system
