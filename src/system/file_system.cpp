#include "system/file_system.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "parsyn/error.hpp"
#include "system/random.hpp"

namespace parsyn::system {
namespace {

namespace fs = std::filesystem;

std::string sentence(const std::string &what, const fs::path &path, int error) {
  return what + " " + path.string() + ": " + std::system_category().message(error);
}

/// Of an error that passes, or that somebody can make pass; else empty.
std::string_view what_to_do(int error) {
  switch (error) {
    case ENOSPC:
      return "free space on this disk, then try again";
    case EDQUOT:
      return "remove files or raise the quota, then try again";
    case EMFILE:
      return "raise this process's limit of open files (ulimit -n), then try again";
    case ENFILE:
      return "raise this machine's limit of open files (fs.file-max), then try again";
    case EROFS:
      return "mount the file system for writing, then try again";
    default:
      return {};
  }
}

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(const fs::path &path) : path_(path) {
    // Without O_NONBLOCK a named pipe holds the caller until somebody writes to it. Regular files ignore the
    // flag.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) throw_file_error("cannot open", path_, errno);
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) {
      const int error = errno;
      ::close(descriptor_);
      throw_file_error("cannot read the size of", path_, error);
    }
    if (!S_ISREG(info.st_mode)) {
      ::close(descriptor_);
      throw Error(ErrorCode::invalid_argument, path_.string() + " is not a regular file");
    }
    size_ = static_cast<std::uint64_t>(info.st_size);
  }
  ~PosixReadableFile() override { ::close(descriptor_); }
  PosixReadableFile(const PosixReadableFile &) = delete;
  PosixReadableFile &operator=(const PosixReadableFile &) = delete;

  std::uint64_t size() const override { return size_; }

  std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    for (;;) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw_file_error("cannot read", path_, errno);
    }
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(const fs::path &path, unsigned mode) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
    if (descriptor_ < 0) throw_file_error("cannot create", path_, errno);
  }
  ~PosixWritableFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  PosixWritableFile(const PosixWritableFile &) = delete;
  PosixWritableFile &operator=(const PosixWritableFile &) = delete;

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw_file_error("cannot write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }

  void flush() override {
    if (::fdatasync(descriptor_) != 0) throw_flush_error("cannot flush", path_, errno);
  }

  void close() override {
    // Where a file system tells only now of what it could not write.
    if (::close(std::exchange(descriptor_, -1)) != 0) throw_flush_error("cannot close", path_, errno);
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
};

FileKind kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::regular:
      return FileKind::regular;
    case fs::file_type::directory:
      return FileKind::folder;
    case fs::file_type::symlink:
      return FileKind::link;
    default:
      return FileKind::other;
  }
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const fs::path &path) override {
    return std::make_unique<PosixReadableFile>(path);
  }

  std::unique_ptr<WritableFile> create(const fs::path &path, unsigned mode) override {
    return std::make_unique<PosixWritableFile>(path, mode);
  }

  void rename(const fs::path &from, const fs::path &to) override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      throw_file_error("cannot rename " + from.string() + " to", to, errno);
  }

  bool rename_new(const fs::path &from, const fs::path &to) override {
    int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
      // A file system without this flag.
      if (::access(to.c_str(), F_OK) == 0) return false;
      result = ::rename(from.c_str(), to.c_str());
    }
    if (result != 0 && errno != EEXIST && errno != ENOENT)
      throw_file_error("cannot rename " + from.string() + " to", to, errno);
    return result == 0;
  }

  bool remove(const fs::path &path) override {
    if (::unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw_file_error("cannot remove", path, errno);
  }

  bool make_folder(const fs::path &path, unsigned mode) override {
    if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) == 0) return true;
    const int error = errno;
    if (error == EEXIST) return false;
    // A read-only file system says so before it looks whether there is one.
    struct stat info {};
    if (error == EROFS && ::stat(path.c_str(), &info) == 0) return false;
    throw_file_error("cannot make the folder", path, error);
  }

  bool remove_folder(const fs::path &path) override {
    if (::rmdir(path.c_str()) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR || errno == ENOTEMPTY || errno == EEXIST) return false;
    throw_file_error("cannot remove the folder", path, errno);
  }

  void flush_folder(const fs::path &path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) throw_file_error("cannot open the folder", path, errno);
    const int flushed = ::fsync(descriptor);
    const int error = errno;
    ::close(descriptor);
    // EINVAL: there is no such operation here, as below an automounter's root.
    if (flushed != 0 && error != EINVAL) throw_flush_error("cannot flush the folder", path, error);
  }

  bool may_open_folder(const fs::path &path) override {
    return ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0 || errno != EACCES;
  }

  std::vector<FolderEntry> list(const fs::path &path) override {
    std::vector<FolderEntry> entries;
    std::error_code error;
    fs::directory_iterator at(path, error);
    for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
      std::error_code gone;
      entries.push_back({at->path().filename().string(), kind_of(at->symlink_status(gone).type())});
    }
    if (error) throw_file_error("cannot list", path, error.value());
    return entries;
  }

  std::optional<FileStatus> status(const fs::path &path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      throw_file_error("cannot look at", path, errno);
    }
    const FileKind kind = S_ISREG(info.st_mode)   ? FileKind::regular
                          : S_ISDIR(info.st_mode) ? FileKind::folder
                                                  : FileKind::other;
    return FileStatus{kind,
                      {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
                       info.st_mtim.tv_sec, info.st_mtim.tv_nsec}};
  }

  std::string session() const override { return session_; }
  std::string unique() override { return random_hex(4); }

 private:
  const std::string session_ = random_hex(8);
};

}  // namespace

void throw_file_error(const std::string &what, const fs::path &path, int error) {
  if (error == ENOENT || error == ENOTDIR) throw Error(ErrorCode::not_found, sentence(what, path, error));
  const std::string_view advice = what_to_do(error);
  if (advice.empty()) throw Error(ErrorCode::io, sentence(what, path, error));
  throw Error(ErrorCode::unavailable, sentence(what, path, error) + "; " + std::string(advice));
}

void throw_flush_error(const std::string &what, const fs::path &path, int error) {
  throw Error(ErrorCode::io, sentence(what, path, error) +
                                 "; what was written since the last flush may be lost, check the disk");
}

FileSystem &posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace parsyn::system
