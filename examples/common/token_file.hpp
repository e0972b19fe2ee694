// Tokens in files: one line, readable by the owner only.
//
// Thread-safety: free functions without state.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace parsyn::programs {

/// The token without white space at its ends. Calls `warn` with a sentence when others than the owner may
/// read the file. Throws Error: not_found, io, invalid_argument (empty, or more than one word).
std::string read_token_file(const std::filesystem::path &path,
                            const std::function<void(const std::string &)> &warn);

/// Makes the file, with mode 0600. Throws Error: conflict (it is there already: it may hold a token in use),
/// io.
void write_token_file(const std::filesystem::path &path, const std::string &token);

}  // namespace parsyn::programs
