// Text without the white space around it. Locale-free.
//
// Thread-safety: free functions without state.
#pragma once

#include <string_view>

namespace parsyn::text {

/// Without the characters of `white_space` at its ends; spaces and tabs are what HTTP and most files have.
std::string_view trimmed(std::string_view text, std::string_view white_space = " \t");

}  // namespace parsyn::text
