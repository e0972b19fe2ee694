// What a process that was killed while it wrote has left in a folder.
#pragma once

#include <filesystem>

#include "system/file_system.hpp"

namespace parsyn::storage {

/// Removes the files below `folder` whose names carry system::kTemporaryMark, but those of this session: they
/// are being written, through another store of this process. No other file goes, and no folder. No clock is
/// asked, as it may have been set since. A file that cannot be removed stays: it is in nobody's way.
void sweep_leftovers(system::FileSystem &files, const std::filesystem::path &folder);

}  // namespace parsyn::storage
