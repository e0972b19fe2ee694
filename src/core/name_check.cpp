#include "core/name_check.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "parsyn/limits.hpp"
#include "text/utf8.hpp"

namespace parsyn::core {
namespace {

/// First and last character.
using Range = std::pair<std::uint32_t, std::uint32_t>;

/// Characters that only say how others are shown (Unicode's Cf, where they show nothing, Zl and Zp): two
/// names that differ in them alone look the same, and some turn the text after them around. Joiners aside.
constexpr std::array<Range, 14> kFormat{{{0x00AD, 0x00AD},
                                         {0x061C, 0x061C},
                                         {0x180E, 0x180E},
                                         {0x200B, 0x200B},
                                         {0x200E, 0x200F},
                                         {0x2028, 0x202E},
                                         {0x2060, 0x206F},
                                         {0xFEFF, 0xFEFF},
                                         {0xFFF9, 0xFFFB},
                                         {0x13430, 0x1343F},
                                         {0x1BCA0, 0x1BCA3},
                                         {0x1D173, 0x1D17A},
                                         {0xE0000, 0xE00FF},
                                         {0xE01F0, 0xE0FFF}}};

/// Characters that belong into names, but show nothing by themselves: spaces and fillers.
constexpr std::array<Range, 13> kBlank{{{0x0020, 0x0020},
                                        {0x00A0, 0x00A0},
                                        {0x034F, 0x034F},
                                        {0x115F, 0x1160},
                                        {0x1680, 0x1680},
                                        {0x17B4, 0x17B5},
                                        {0x2000, 0x200A},
                                        {0x202F, 0x202F},
                                        {0x205F, 0x205F},
                                        {0x2800, 0x2800},
                                        {0x3000, 0x3000},
                                        {0x3164, 0x3164},
                                        {0xFFA0, 0xFFA0}}};

/// Variation selectors: they say how the character before them looks.
constexpr std::array<Range, 4> kVariation{
    {{0x180B, 0x180D}, {0x180F, 0x180F}, {0xFE00, 0xFE0F}, {0xE0100, 0xE01EF}}};

/// Zero width non-joiner and joiner: several scripts spell words with them, and emoji are put together. They
/// show what they do between two visible characters only.
constexpr std::array<Range, 1> kJoiners{{{0x200C, 0x200D}}};

template <std::size_t N>
bool is_in(std::uint32_t character, const std::array<Range, N> &ranges) {
  return std::ranges::any_of(
      ranges, [&](const Range &range) { return character >= range.first && character <= range.second; });
}

/// The first character of well-formed UTF-8, which it takes away.
std::uint32_t take_character(std::string_view &text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  std::uint32_t character = length == 1 ? first : first & (0x7FU >> length);
  for (const char byte : text.substr(1, length - 1))
    character = character << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  text.remove_prefix(length);
  return character;
}

std::string code_point(std::uint32_t character) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (; character != 0 || text.size() < 4; character >>= 4)
    text.insert(text.begin(), kDigits[character & 15U]);
  return "U+" + text;
}

/// Empty for UTF-8 text that can be seen.
std::string why_not_seen(std::string_view name) {
  bool is_visible = false;
  bool shown_before = false;
  std::uint32_t joiner = 0;  // the character before, where it is one
  const auto misplaced = [](std::uint32_t which) {
    return "has the joiner " + code_point(which) + ", but not between two visible characters";
  };
  while (!name.empty()) {
    const std::uint32_t character = take_character(name);
    if (is_in(character, kFormat)) return "has the format character " + code_point(character);
    const bool joins = is_in(character, kJoiners);
    const bool shows = !joins && !is_in(character, kBlank) && !is_in(character, kVariation);
    if (joiner != 0 && !shows) return misplaced(joiner);
    if (joins && !shown_before) return misplaced(character);
    joiner = joins ? character : 0;
    is_visible = is_visible || shows;
    if (!is_in(character, kVariation)) shown_before = shows;
  }
  if (joiner != 0) return misplaced(joiner);
  return is_visible ? "" : "has no visible character";
}

}  // namespace

std::string why_name_is_refused(std::string_view name) {
  const std::string right = "; it must have 1 to " + std::to_string(limits::kNameBytesMax) +
                            " bytes of UTF-8 text without control and format characters";
  if (name.empty()) return "is empty" + right;
  if (name.size() > limits::kNameBytesMax) return "has " + std::to_string(name.size()) + " bytes" + right;
  if (!text::is_utf8(name)) return "is not UTF-8" + right;
  if (text::has_control_characters(name)) return "has a control character" + right;
  const std::string reason = why_not_seen(name);
  return reason.empty() ? reason : reason + right;
}

}  // namespace parsyn::core
