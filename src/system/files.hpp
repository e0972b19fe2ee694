// Files as parsyn uses them: read by position, or written as a whole. What Error each failure is,
// file_system.hpp says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "parsyn/bytes.hpp"
#include "system/file_system.hpp"

namespace parsyn::system {

/// An open file, read by position (pread), several threads at once.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path &path, FileSystem &files = posix_file_system());
  std::uint64_t size() const override { return file_->size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::filesystem::path path_;
  std::unique_ptr<ReadableFile> file_;
};

/// A file that appears under its name as a whole: written beside it under a temporary name, flushed
/// (fdatasync), renamed, and its folder flushed. Destroyed without commit(), nothing is left.
class AtomicFile final : public ByteSink {
 public:
  /// `mode`: permission bits of the new file.
  explicit AtomicFile(std::filesystem::path path, unsigned mode = kPrivateFile,
                      FileSystem &files = posix_file_system());
  ~AtomicFile() override;
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  void write(std::span<const std::byte> bytes) override;
  /// Once, as the last call. When it returns, the file is durable under its name. After an error the name may
  /// have been given (renamed()) without being durable: write the file anew. A flush is never tried again.
  void commit();
  /// As commit(), where nothing has the file's name. False: something has, and it stays as it is. After an
  /// error nothing has it.
  bool commit_new();
  /// Whether the file has its name, durable or not.
  bool renamed() const { return temporary_.empty(); }
  std::uint64_t bytes_written() const { return written_; }

 private:
  WritableFile &file() const;
  void finish();

  FileSystem &files_;
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed
  std::unique_ptr<WritableFile> file_;
  std::uint64_t written_ = 0;
};

/// A suffix that no finished file of parsyn has: leftovers of a crash are known by it. The session of the
/// process that writes the file follows.
inline constexpr std::string_view kTemporaryMark = ".parsyn-tmp-";

std::string read_text_file(const std::filesystem::path &path, std::uint64_t bytes_max);
void write_text_file(const std::filesystem::path &path, std::string_view text, unsigned mode = kPrivateFile);
/// Gives a finished file its name and flushes its folder. False, and nothing done, where the name is taken or
/// `from` is gone: somebody else was faster. Where the flush fails, the file is removed.
bool publish_file(const std::filesystem::path &from, const std::filesystem::path &to,
                  FileSystem &files = posix_file_system());
/// Removes what a process that was killed while it wrote `file` has left. Only where nobody is writing it
/// now. What cannot be removed stays: it is in nobody's way.
void remove_unfinished(const std::filesystem::path &file, FileSystem &files = posix_file_system());
/// Makes `folder` and those above it that are missing, and flushes each new one into the folder that it lies
/// in; that of a folder that is there too, as far as this process may open it: whoever made it may have been
/// killed before. `mode`: permission bits of the new ones.
void make_folders(const std::filesystem::path &folder, unsigned mode = kPrivateFolder,
                  FileSystem &files = posix_file_system());
/// Makes one folder, in one that is there, and flushes that, also when the folder was there: whoever made it
/// may have been killed before. False: something has that name already.
bool make_flushed_folder(const std::filesystem::path &folder, unsigned mode = kPrivateFolder,
                         FileSystem &files = posix_file_system());
/// Flushes the folder's own entry list, so that a rename in it survives a power loss.
void flush_folder(const std::filesystem::path &folder, FileSystem &files = posix_file_system());

}  // namespace parsyn::system
