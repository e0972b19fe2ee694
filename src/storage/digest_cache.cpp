#include "storage/digest_cache.hpp"

namespace parsyn::storage {
namespace {

// About 40 MB at the most. What is forgotten is computed again when it is asked for.
constexpr std::size_t kEntriesMax = 200'000;

}  // namespace

std::optional<FileIdentity> identity_of(system::FileSystem &files, const std::filesystem::path &path) {
  const auto status = files.status(path);
  if (!status || status->kind != system::FileKind::regular) return std::nullopt;
  return status->identity;
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
