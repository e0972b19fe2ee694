// What client and server share about header text. Locale-free.
#pragma once

#include <string_view>

namespace parsyn::http {

/// Equal without regard to the case of ASCII letters.
bool same_word(std::string_view a, std::string_view b);

}  // namespace parsyn::http
