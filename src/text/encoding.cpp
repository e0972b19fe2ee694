#include "text/encoding.hpp"

#include <charconv>

namespace parsyn::text {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr char kUpperHexDigits[] = "0123456789ABCDEF";

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    const auto value = static_cast<unsigned>(byte);
    text += kHexDigits[value >> 4];
    text += kHexDigits[value & 15];
  }
  return text;
}

bool is_hex(std::string_view text, std::size_t bytes) {
  return text.size() == 2 * bytes && text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

std::string percent_encode(std::string_view text, std::string_view keep) {
  std::string encoded;
  for (const char c : text) {
    if (is_unreserved(c) || keep.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      const auto value = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kUpperHexDigits[value >> 4];
      encoded += kUpperHexDigits[value & 15];
    }
  }
  return encoded;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace parsyn::text
