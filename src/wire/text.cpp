#include "wire/text.hpp"

#include "core/name_check.hpp"

namespace parsyn::wire {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kCharacterBytesMax = 4;

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string result;
  for (std::size_t index = 0; index < text.size() && result.size() <= bytes_max;) {
    std::size_t length = 1;
    while (length <= kCharacterBytesMax && !core::is_utf8(text.substr(index, length))) ++length;
    if (length > kCharacterBytesMax) {
      result += kReplacement;
      ++index;
      continue;
    }
    // At the end of the text substr() is shorter than `length` says.
    const std::string_view character = text.substr(index, length);
    if (core::has_control_characters(character)) {
      result += ' ';
    } else {
      result += character;
    }
    index += character.size();
  }
  return shortened(result, bytes_max);
}

std::string shortened(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view kMark = "...";
  if (text.size() <= bytes_max) return std::string(text);
  std::size_t end = bytes_max - kMark.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)).append(kMark);
}

}  // namespace parsyn::wire
