// The few operations on header text that client and server share. Locale-free.
#pragma once

#include <string_view>

namespace parsyn::http {

/// Equal without regard to the case of ASCII letters.
bool same_word(std::string_view a, std::string_view b);
/// Without spaces and tabs at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace parsyn::http
