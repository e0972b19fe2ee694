// The file store over any file system.
#pragma once

#include <filesystem>
#include <memory>

#include "parsyn/object_store.hpp"
#include "system/file_system.hpp"

namespace parsyn::storage {

/// As parsyn::make_file_store. `files` outlives the store, its readers and its writers.
std::shared_ptr<ObjectStore> make_file_store(const std::filesystem::path &folder, system::FileSystem &files);

}  // namespace parsyn::storage
