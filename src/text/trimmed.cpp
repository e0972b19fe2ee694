#include "text/trimmed.hpp"

namespace parsyn::text {

std::string_view trimmed(std::string_view text, std::string_view white_space) {
  const auto first = text.find_first_not_of(white_space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white_space) - first + 1);
}

}  // namespace parsyn::text
