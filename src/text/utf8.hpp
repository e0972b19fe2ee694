// UTF-8 (RFC 3629), and text of others made fit for messages and documents. Locale-free.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace parsyn::text {

/// Well-formed UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

/// Whether UTF-8 text has a control character: below U+0020, U+007F to U+009F.
bool has_control_characters(std::string_view text);

/// UTF-8 without control characters: these become spaces, what is not UTF-8 becomes U+FFFD; then shortened().
std::string printable(std::string_view text, std::size_t bytes_max);

/// At most `bytes_max` bytes (at least 3) of UTF-8 text, cut at a character's border; "..." marks the cut.
std::string shortened(std::string_view text, std::size_t bytes_max);

}  // namespace parsyn::text
