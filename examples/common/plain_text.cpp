#include "common/plain_text.hpp"

#include <algorithm>

#include "text/utf8.hpp"

namespace parsyn::programs {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool is_left_out(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const bool embedding = byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE;
  const bool isolate = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return embedding || isolate;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && end < at + 4 && is_continuation(text[end])) ++end;
    const std::string_view character = text.substr(at, end - at);
    if (!text::is_utf8(character)) {
      result += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    if (!is_left_out(character)) result += character;
    at = end;
  }
  return result;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); }));
}

std::string first_characters(std::string_view text, std::size_t characters_max) {
  std::size_t end = 0;
  for (std::size_t count = 0; end < text.size(); ++end) {
    if (!is_continuation(text[end]) && ++count > characters_max) break;
  }
  return std::string(text.substr(0, end));
}

std::string padded(std::string_view text, std::size_t characters) {
  std::string result = first_characters(text, characters);
  result.append(characters - character_count(result), ' ');
  return result;
}

}  // namespace parsyn::programs
