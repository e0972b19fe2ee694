#include "system/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "text/encoding.hpp"

namespace parsyn::system {
namespace {

std::string process_in(const std::filesystem::path &lock_file) {
  constexpr std::uint64_t kBytesMax = 100;
  try {
    const auto process = text::parse_u64(read_text_file(lock_file, kBytesMax));
    if (process) return "process " + std::to_string(*process);
  } catch (const Error &) {
    // It is told without its number.
  }
  return "a process";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path &folder, const FolderLockOptions &options) {
  const std::filesystem::path lock_file = folder / "lock";
  descriptor_ = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kPrivateFile);
  if (descriptor_ < 0) throw_file_error("cannot open", lock_file, errno);
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw_file_error("cannot lock", lock_file, errno);
      throw Error(ErrorCode::conflict, "another " + options.holder + " (" + process_in(lock_file) +
                                           ") runs in " + folder.string() + ": stop it first, or " +
                                           options.advice);
    }
    // For people only: a disk that is full takes no lock away.
    const std::string process = std::to_string(::getpid());
    if (::ftruncate(descriptor_, 0) == 0)
      static_cast<void>(::pwrite(descriptor_, process.data(), process.size(), 0) < 0);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

// The file stays: removing it would let a third process lock a file that the second one has open under
// another name.
FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace parsyn::system
