// The seam between the code that keeps files and whatever keeps their bytes: the operating system, or a
// simulated disk that loses what was not flushed.
//
// Every error is an Error with the path, the system's own sentence and, where there is one, what to do:
// - not_found: the file, or a folder on the way to it, is not there;
// - unavailable: no space, over quota, too many open files, mounted read-only. The same call may succeed
// later;
// - io: everything else. A flush that fails is always io, whatever the reason: the system may have dropped
// what
//   it could not write, so that a second flush means nothing.
//
// Thread-safety: every method of a FileSystem may be called from any thread; a ReadableFile may be read by
// several threads at once, a WritableFile has one writer. Lifetime: files do not outlive their FileSystem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace parsyn::system {

enum class FileKind {
  regular,
  folder,
  link,  ///< Only from FileSystem::list: status() follows it.
  other,
};

/// Permission bits of what holds weights, training data or tokens: for its owner alone.
inline constexpr unsigned kPrivateFile = 0600;
inline constexpr unsigned kPrivateFolder = 0700;

/// What tells one state of a file from another without reading it.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_seconds = 0;
  std::int64_t modified_nanoseconds = 0;

  bool operator==(const FileIdentity &) const = default;
};

struct FileStatus {
  FileKind kind = FileKind::other;
  FileIdentity identity;
};

struct FolderEntry {
  std::string name;
  FileKind kind = FileKind::other;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// When it was opened.
  virtual std::uint64_t size() const = 0;
  /// Reads at most out.size() bytes, and says how many; 0 at the end of the file.
  virtual std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Destroyed without close(), what was not flushed may or may not be there.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// All of `bytes`. After an error some of them may have been written.
  virtual void append(std::span<const std::byte> bytes) = 0;
  /// fdatasync: what was written, and the length, survive a power loss. The file's name is not meant: see
  /// flush_folder.
  virtual void flush() = 0;
  /// Once, as the last call. Does not flush.
  virtual void close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Throws also: invalid_argument (not a regular file).
  virtual std::unique_ptr<ReadableFile> open(const std::filesystem::path &path) = 0;
  /// A new file: a name that is taken is an error (io). `mode`: its permission bits.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path &path, unsigned mode) = 0;
  /// Replaces what lies at `to`, a regular file, at once.
  virtual void rename(const std::filesystem::path &from, const std::filesystem::path &to) = 0;
  /// The same, where nothing lies at `to`. False, and nothing done: something does, or `from` is gone.
  virtual bool rename_new(const std::filesystem::path &from, const std::filesystem::path &to) = 0;
  /// Of a file. False: there was none.
  virtual bool remove(const std::filesystem::path &path) = 0;
  /// One folder in a folder that is there. `mode`: its permission bits. False: something has that name
  /// already.
  virtual bool make_folder(const std::filesystem::path &path, unsigned mode) = 0;
  /// False: there is no such folder, or it is not empty.
  virtual bool remove_folder(const std::filesystem::path &path) = 0;
  /// fsync of the folder: that files and folders were created, renamed and removed in it survives a power
  /// loss. Nothing, and no error, on a file system that cannot flush folders.
  virtual void flush_folder(const std::filesystem::path &path) = 0;
  /// Whether this process is permitted to open the folder, as flush_folder and list do.
  virtual bool may_open_folder(const std::filesystem::path &path) = 0;
  /// In no particular order; links are not followed.
  virtual std::vector<FolderEntry> list(const std::filesystem::path &path) = 0;
  /// Of what a link leads to. Nothing: it is not there.
  virtual std::optional<FileStatus> status(const std::filesystem::path &path) = 0;

  /// Lower-case hex that this process puts into the names of its unfinished files, and no other one does,
  /// neither one of before a restart: what carries another was left behind. Always the same.
  virtual std::string session() const = 0;
  /// At most 8 characters of lower-case hex, others each time.
  virtual std::string unique() = 0;
};

/// The operating system's files. Lives as long as the process.
FileSystem &posix_file_system();

/// Throws the Error for a call that failed with `error` (errno); `what`: "cannot open".
[[noreturn]] void throw_file_error(const std::string &what, const std::filesystem::path &path, int error);
/// The same for a flush.
[[noreturn]] void throw_flush_error(const std::string &what, const std::filesystem::path &path, int error);

}  // namespace parsyn::system
