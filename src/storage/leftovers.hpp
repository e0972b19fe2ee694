// What a process that was killed while it wrote has left in a folder.
#pragma once

#include <filesystem>

namespace parsyn::storage {

/// Removes the files below `folder` whose names carry system::kTemporaryMark and that were last written
/// before this process started; no other file, and no folder. A file that cannot be removed stays: it is in
/// nobody's way.
void sweep_leftovers(const std::filesystem::path &folder);

}  // namespace parsyn::storage
