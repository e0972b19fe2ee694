// A folder that one process at a time has.
//
// Thread-safety: of one thread.
#pragma once

#include <filesystem>
#include <string>

namespace parsyn::system {

struct FolderLockOptions {
  std::string holder;  ///< Who locks such folders: "coordinator".
  std::string advice;  ///< What whoever finds it taken can do instead: "give this one another --state".
};

/// Holds the lock of a folder while it lives, by a file "lock" in it with the process's id, where the disk
/// has room for that. The system lets go of it when the process ends, however it ends, and with it
/// every child of a fork() that has not become another program. Two of one process
/// exclude each other, too.
class FolderLock {
 public:
  /// Of a folder that is there. Throws Error: conflict (another one has it: the sentence names the folder and
  /// its process), io.
  FolderLock(const std::filesystem::path &folder, const FolderLockOptions &options);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace parsyn::system
