#include "system/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "parsyn/error.hpp"
#include "system/random.hpp"

namespace parsyn::system {
namespace {

[[noreturn]] void fail(const std::string &what, const std::filesystem::path &path, int error) {
  const auto code = error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
  throw Error(code, what + " " + path.string() + ": " + std::system_category().message(error));
}

}  // namespace

FileSource::FileSource(const std::filesystem::path &path) : path_(path) {
  // Without O_NONBLOCK a named pipe holds the caller until somebody writes to it. Regular files ignore the
  // flag.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("cannot open", path_, errno);
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
    const int error = errno;
    const bool regular = S_ISREG(info.st_mode);
    ::close(descriptor_);
    if (!regular) throw Error(ErrorCode::invalid_argument, path_.string() + " is not a regular file");
    fail("cannot read the size of", path_, error);
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

FileSource::~FileSource() { ::close(descriptor_); }

void FileSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    throw Error(ErrorCode::corrupt_data, path_.string() + " has " + std::to_string(size_) + " bytes; " +
                                             std::to_string(out.size()) + " bytes at " +
                                             std::to_string(offset) + " were asked for");
  }
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read", path_, errno);
    if (got == 0) throw Error(ErrorCode::corrupt_data, path_.string() + " became shorter while it was read");
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

AtomicFile::AtomicFile(std::filesystem::path path, unsigned mode) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += std::string(kTemporaryMark) + random_hex(8);
  descriptor_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
  if (descriptor_ < 0) fail("cannot create", temporary_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot write", temporary_, errno);
    written_ += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void AtomicFile::commit() {
  if (::fdatasync(descriptor_) != 0) fail("cannot flush", temporary_, errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("cannot close", temporary_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("cannot rename " + temporary_.string() + " to", path_, errno);
  temporary_.clear();
  flush_folder(path_.parent_path());
}

std::string read_text_file(const std::filesystem::path &path, std::uint64_t bytes_max) {
  const FileSource source(path);
  if (source.size() > bytes_max) {
    throw Error(ErrorCode::too_large, path.string() + " has " + std::to_string(source.size()) +
                                          " bytes; at most " + std::to_string(bytes_max) + " are read");
  }
  std::string text(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_text_file(const std::filesystem::path &path, std::string_view text, unsigned mode) {
  AtomicFile file(path, mode);
  file.write(std::as_bytes(std::span(text.data(), text.size())));
  file.commit();
}

void make_folders(const std::filesystem::path &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorCode::io, "cannot make the folder " + folder.string() + ": " + error.message());
}

void flush_folder(const std::filesystem::path &folder) {
  const std::filesystem::path name = folder.empty() ? std::filesystem::path(".") : folder;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open the folder", name, errno);
  const int flushed = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (flushed != 0) fail("cannot flush the folder", name, error);
}

}  // namespace parsyn::system
