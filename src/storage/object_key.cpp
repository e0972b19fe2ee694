#include "storage/object_key.hpp"

#include <algorithm>
#include <optional>

#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/object_store.hpp"
#include "system/files.hpp"
#include "text/utf8.hpp"

namespace parsyn {
namespace storage {
namespace {

bool is_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '=' || c == '-';
}

std::string in_quotes(std::string_view text) {
  std::string result(1, '"');
  result += text;
  result += '"';
  return result;
}

std::string bytes_over(std::string_view what, std::size_t bytes, std::uint32_t bytes_max) {
  return std::string(what) + " has " + std::to_string(bytes) + " bytes; at most " +
         std::to_string(bytes_max) + " are allowed";
}

std::optional<std::string> fault_of_characters(std::string_view segment) {
  const auto wrong = std::find_if_not(segment.begin(), segment.end(), is_key_character);
  if (wrong != segment.end()) {
    const auto byte = static_cast<unsigned char>(*wrong);
    const std::string shown =
        byte > 0x20 && byte < 0x7f ? in_quotes(std::string(1, *wrong)) : "the byte " + std::to_string(byte);
    return shown + " is not allowed; segments are made of A-Z a-z 0-9 . _ = -";
  }
  if (segment.size() > limits::kObjectKeySegmentBytesMax) {
    return bytes_over("a segment", segment.size(), limits::kObjectKeySegmentBytesMax);
  }
  if (segment.find(system::kTemporaryMark) != std::string_view::npos) {
    return in_quotes(system::kTemporaryMark) + " marks unfinished files and cannot be part of a key";
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_segment(std::string_view segment) {
  if (segment.empty()) return "a segment is empty (two slashes, or one at the beginning or end)";
  if (segment == "." || segment == "..") return in_quotes(segment) + " is not a segment";
  return fault_of_characters(segment);
}

/// What is wrong with a text of segments; the last one may be unfinished in a prefix.
std::optional<std::string> fault_of(std::string_view text, bool prefix) {
  if (text.size() > limits::kObjectKeyBytesMax)
    return bytes_over("it", text.size(), limits::kObjectKeyBytesMax);
  for (;;) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return prefix ? fault_of_characters(text) : fault_of_segment(text);
    if (auto fault = fault_of_segment(text.substr(0, slash))) return fault;
    text.remove_prefix(slash + 1);
  }
}

}  // namespace

void check_object_prefix(std::string_view prefix) {
  if (const auto fault = fault_of(prefix, true)) {
    throw Error(ErrorCode::invalid_argument,
                "object key prefix " + in_quotes(text::printable(prefix, 200)) + " is not valid: " + *fault);
  }
}

bool is_object_key(std::string_view key) { return !fault_of(key, false); }

std::string etag_of(std::string_view sha256) { return in_quotes(sha256.substr(0, 32)); }

}  // namespace storage

void check_object_key(std::string_view key) {
  if (const auto fault = storage::fault_of(key, false)) {
    throw Error(ErrorCode::invalid_argument,
                "object key " + storage::in_quotes(text::printable(key, 200)) + " is not valid: " + *fault);
  }
}

}  // namespace parsyn
