// Internal to this layer: text of peers, made fit for messages and documents.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace parsyn::wire {

/// UTF-8 without control characters: these become spaces, what is not UTF-8 becomes U+FFFD; then shortened().
std::string printable(std::string_view text, std::size_t bytes_max);

/// At most `bytes_max` bytes (at least 3) of UTF-8 text, cut at a character's border; "..." marks the cut.
std::string shortened(std::string_view text, std::size_t bytes_max);

}  // namespace parsyn::wire
