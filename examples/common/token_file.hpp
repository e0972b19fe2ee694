// Tokens in files: one line, readable by the owner only.
//
// Thread-safety: free functions without state.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "system/file_system.hpp"

namespace parsyn::programs {

/// The token without white space at its ends. Calls `warn` with a sentence when others than the owner may
/// read the file. Throws Error: not_found, io, invalid_argument (empty, or more than one word).
std::string read_token_file(const std::filesystem::path &path,
                            const std::function<void(const std::string &)> &warn);

/// Before there is a token that would be lost without its file. Throws Error: conflict (something has that
/// name), io (no such folder, or one that this process may not write to).
void check_token_file_is_new(const std::filesystem::path &path);

/// Makes the file, with mode 0600: as a whole, flushed, or not at all. Throws Error: conflict (it is there
/// already: it may hold a token in use), io, unavailable (no space).
void write_token_file(const std::filesystem::path &path, const std::string &token,
                      system::FileSystem &files = system::posix_file_system());

}  // namespace parsyn::programs
