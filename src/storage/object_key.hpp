// Which keys and prefixes an object store takes.
#pragma once

#include <string>
#include <string_view>

namespace parsyn::storage {

/// Throws Error(invalid_argument) for a prefix that no key can start with.
void check_object_prefix(std::string_view prefix);

/// Whether `key` is valid, for names that were found rather than given.
bool is_object_key(std::string_view key);

/// The opaque version tag of an object, quoted, from its SHA-256 in hex.
std::string etag_of(std::string_view sha256);

}  // namespace parsyn::storage
