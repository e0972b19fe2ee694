// Where an object store lies, as open_object_store takes it.
//
// Thread-safety: a free function without state.
#pragma once

#include <optional>
#include <string>

namespace parsyn::storage {

/// The folder of "file:/the/folder"; nothing for "memory:". Throws Error(invalid_argument) for anything else.
std::optional<std::string> folder_of_location(const std::string &location);

}  // namespace parsyn::storage
