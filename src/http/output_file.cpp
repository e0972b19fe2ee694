#include "http/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "parsyn/error.hpp"
#include "system/file_system.hpp"

namespace parsyn::http {

OutputFile::OutputFile(std::filesystem::path path, std::uint64_t offset, unsigned mode)
    : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, static_cast<mode_t>(mode));
  if (descriptor_ < 0) fail("cannot open", errno);
  try {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) fail("cannot read the size of", errno);
    if (static_cast<std::uint64_t>(info.st_size) < offset) {
      throw Error(ErrorCode::invalid_argument, path_.string() + " has " + std::to_string(info.st_size) +
                                                   " bytes; a download cannot go on at " +
                                                   std::to_string(offset));
    }
    if (::ftruncate(descriptor_, static_cast<off_t>(offset)) != 0) fail("cannot cut", errno);
    if (::lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0) fail("cannot seek in", errno);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void OutputFile::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close", errno);
}

void OutputFile::fail(const char *what, int error) const {
  try {
    system::throw_file_error(what, path_, error);
  } catch (const Error &failure) {
    // Not "not found": that is what the server says of what is downloaded.
    if (failure.code() == ErrorCode::not_found) throw Error(ErrorCode::io, failure.message());
    throw;
  }
}

}  // namespace parsyn::http
