#include "coordinator/state_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "common/plain_text.hpp"
#include "common/token_file.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "system/random.hpp"

namespace parsyn::programs {
namespace {

constexpr std::size_t kTokenBytes = 32;

std::string process_in(const std::filesystem::path &lock_file) {
  try {
    const std::string text = plain_text(system::read_text_file(lock_file, 100));
    if (!text.empty()) return "process " + text;
  } catch (const Error &) {
    // Between its start and its first line it has no number yet.
  }
  return "a process";
}

}  // namespace

StateFolder::StateFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  const auto fail = [&](const std::string &what, const std::filesystem::path &path) {
    return Error(ErrorCode::io, what + " " + path.string() + ": " + std::system_category().message(errno));
  };
  system::make_folders(std::filesystem::absolute(folder_).lexically_normal());

  const std::filesystem::path lock_file = folder_ / "lock";
  lock_ = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) throw fail("cannot open", lock_file);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const bool taken = errno == EWOULDBLOCK;
    const Error error =
        taken ? Error(ErrorCode::conflict, "another coordinator (" + process_in(lock_file) + ") runs in " +
                                               folder_.string() +
                                               ": stop it first, or give this one another --state")
              : fail("cannot lock", lock_file);
    ::close(lock_);
    throw error;
  }
  const std::string process = std::to_string(::getpid());
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, process.data(), process.size(), 0) < 0) {
    const Error error = fail("cannot write", lock_file);
    ::close(lock_);
    throw error;
  }
}

// The file stays: removing it would let a third process lock a file that the second one has open under
// another name.
StateFolder::~StateFolder() { ::close(lock_); }

bool StateFolder::make_token_if_missing() const {
  // This process has the folder's lock: nobody else is making one.
  system::remove_unfinished(token_file());
  if (std::filesystem::exists(token_file())) return false;
  write_token_file(token_file(), system::random_hex(kTokenBytes));
  return true;
}

}  // namespace parsyn::programs
