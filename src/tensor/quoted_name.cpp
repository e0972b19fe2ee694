#include "tensor/quoted_name.hpp"

namespace parsyn::tensor {

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kShownBytesMax = 120;
  std::size_t shown = name.size();
  if (shown > kShownBytesMax) {
    shown = kShownBytesMax;
    // Bytes 10xxxxxx continue a UTF-8 character: step back to its first byte.
    while (shown > 0 && (static_cast<unsigned char>(name[shown]) & 0xC0) == 0x80) --shown;
  }
  std::string text = "\"";
  for (const char character : name.substr(0, shown)) {
    const auto code = static_cast<unsigned char>(character);
    text += code < 0x20 || code == 0x7F ? '?' : character;
  }
  if (shown < name.size()) text += "...";
  return text + '"';
}

}  // namespace parsyn::tensor
