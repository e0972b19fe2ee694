// The coordinator's folder: one process at a time, and the operator's token.
//
// Thread-safety: of one thread.
#pragma once

#include <filesystem>
#include <string>

#include "system/folder_lock.hpp"

namespace parsyn::programs {

/// Holds the folder's lock while it lives; the system lets go of it when the process ends, however it ends.
class StateFolder {
 public:
  /// Makes the folder (mode 0700) when it is not there, durable. Throws Error: conflict (another coordinator
  /// has it, with its process id), io.
  explicit StateFolder(std::filesystem::path folder);

  const std::filesystem::path &path() const { return folder_; }
  std::filesystem::path token_file() const { return folder_ / "operator.token"; }
  /// Draws the operator's token at the first start. True: it was made now.
  bool make_token_if_missing() const;

 private:
  const std::filesystem::path folder_;
  const system::FolderLock lock_;
};

}  // namespace parsyn::programs
