#include "core/name_check.hpp"

#include <cstddef>
#include <cstdint>

#include "parsyn/limits.hpp"

namespace parsyn::core {
namespace {

unsigned byte_at(std::string_view text, std::size_t index) { return static_cast<unsigned char>(text[index]); }

/// Bytes of the well-formed character that starts at `index`; 0 where none does.
std::size_t character_length(std::string_view text, std::size_t index) {
  const unsigned first = byte_at(text, index);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  // The second byte's range is what rules out longer forms than needed, surrogates and what lies above
  // U+10FFFF.
  unsigned second_min = 0x80, second_max = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) second_min = 0xA0;
    if (first == 0xED) second_max = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) second_min = 0x90;
    if (first == 0xF4) second_max = 0x8F;
  }
  if (length == 0 || text.size() - index < length) return 0;
  if (byte_at(text, index + 1) < second_min || byte_at(text, index + 1) > second_max) return 0;
  for (std::size_t i = index + 2; i < index + length; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t index = 0; index < text.size();) {
    const std::size_t length = character_length(text, index);
    if (length == 0) return false;
    index += length;
  }
  return true;
}

bool has_control_characters(std::string_view text) {
  for (std::size_t index = 0; index < text.size(); ++index) {
    const unsigned byte = byte_at(text, index);
    if (byte < 0x20 || byte == 0x7F) return true;
    // U+0080 to U+009F are C2 80 to C2 9F.
    if (byte == 0xC2 && index + 1 < text.size() && byte_at(text, index + 1) < 0xA0) return true;
  }
  return false;
}

std::string why_name_is_refused(std::string_view name) {
  const std::string right = "it must have 1 to " + std::to_string(limits::kNameBytesMax) +
                            " bytes of UTF-8 text without control characters";
  if (name.empty()) return "is empty; " + right;
  if (name.size() > limits::kNameBytesMax) return "has " + std::to_string(name.size()) + " bytes; " + right;
  if (!is_utf8(name)) return "is not UTF-8; " + right;
  if (has_control_characters(name)) return "has a control character; " + right;
  return {};
}

}  // namespace parsyn::core
