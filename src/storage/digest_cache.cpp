#include "storage/digest_cache.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "parsyn/error.hpp"

namespace parsyn::storage {
namespace {

// About 40 MB at the most. What is forgotten is computed again when it is asked for.
constexpr std::size_t kEntriesMax = 200'000;

}  // namespace

std::optional<FileIdentity> identity_of(const std::filesystem::path &path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return std::nullopt;
    throw Error(ErrorCode::io,
                "cannot look at " + path.string() + ": " + std::system_category().message(error));
  }
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec,
                      info.st_mtim.tv_nsec};
}

void DigestCache::put(const std::string &key, const FileIdentity &identity, const std::string &sha256) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kEntriesMax) entries_.erase(entries_.begin());
  entries_[key] = Entry{identity, sha256};
}

std::optional<std::string> DigestCache::find(const std::string &key, const FileIdentity &identity) const {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(key);
  if (at == entries_.end() || at->second.identity != identity) return std::nullopt;
  return at->second.sha256;
}

void DigestCache::forget(const std::string &key) {
  const std::lock_guard lock(mutex_);
  entries_.erase(key);
}

}  // namespace parsyn::storage
