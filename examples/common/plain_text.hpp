// Text of others on a terminal: names, reasons and sentences that came over the network.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace parsyn::programs {

/// Without what could move the cursor, change colours or turn the direction of writing: C0 and C1 control
/// characters and U+202A to U+202E, U+2066 to U+2069 are left out; bytes that are not UTF-8 become U+FFFD.
std::string plain_text(std::string_view text);

/// Characters (code points) of UTF-8 text.
std::size_t character_count(std::string_view text);
/// At most the first `characters_max` of them.
std::string first_characters(std::string_view text, std::size_t characters_max);
/// Filled up with spaces to `characters`, or cut to them.
std::string padded(std::string_view text, std::size_t characters);

}  // namespace parsyn::programs
