#include "core/name_check.hpp"

#include "parsyn/limits.hpp"
#include "text/utf8.hpp"

namespace parsyn::core {
std::string why_name_is_refused(std::string_view name) {
  const std::string right = "it must have 1 to " + std::to_string(limits::kNameBytesMax) +
                            " bytes of UTF-8 text without control characters";
  if (name.empty()) return "is empty; " + right;
  if (name.size() > limits::kNameBytesMax) return "has " + std::to_string(name.size()) + " bytes; " + right;
  if (!text::is_utf8(name)) return "is not UTF-8; " + right;
  if (text::has_control_characters(name)) return "has a control character; " + right;
  return {};
}

}  // namespace parsyn::core
