// The SHA-256 of files that have not changed since it was computed.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "system/file_system.hpp"

namespace parsyn::storage {

using system::FileIdentity;

/// Nothing when `path` is not a regular file. Throws Error: io, unavailable.
std::optional<FileIdentity> identity_of(system::FileSystem &files, const std::filesystem::path &path);

/// In memory only: a digest kept in a file of its own could be torn from the object that it describes.
///
/// Thread-safety: every method may be called from any thread.
class DigestCache {
 public:
  void put(const std::string &key, const FileIdentity &identity, const std::string &sha256);
  std::optional<std::string> find(const std::string &key, const FileIdentity &identity) const;
  void forget(const std::string &key);

 private:
  struct Entry {
    FileIdentity identity;
    std::string sha256;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

}  // namespace parsyn::storage
