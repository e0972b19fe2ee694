#include "common/settings_file.hpp"

#include "parsyn/error.hpp"
#include "text/trimmed.hpp"

namespace parsyn::programs {
namespace {

/// With the carriage return that some editors leave before a line's end.
constexpr std::string_view kWhiteSpace = " \t\r";

std::string_view trimmed(std::string_view text) { return text::trimmed(text, kWhiteSpace); }

/// Where a comment begins, or the text's end. `text` follows white space or "=".
std::string_view without_comment(std::string_view text) {
  for (std::size_t at = text.find('#'); at != std::string_view::npos; at = text.find('#', at + 1)) {
    if (at > 0 && kWhiteSpace.find(text[at - 1]) != std::string_view::npos) return text.substr(0, at);
  }
  return text;
}

/// Of what follows the "=".
std::string_view value_in(std::string_view text) {
  const std::string_view from = trimmed(text);
  if (!from.starts_with('"')) return trimmed(without_comment(text));
  const std::size_t quote = from.find('"', 1);
  if (quote == std::string_view::npos)
    throw Error(ErrorCode::invalid_argument, "the value's double quote is not closed");
  if (!trimmed(without_comment(from.substr(quote + 1))).empty()) {
    throw Error(ErrorCode::invalid_argument,
                "something follows the value's closing double quote; a value that begins with one ends with "
                "the next one");
  }
  return from.substr(1, quote - 1);
}

}  // namespace

std::vector<FileSetting> parse_settings_file(std::string_view text) {
  std::vector<FileSetting> settings;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.empty() || content.starts_with('#')) continue;
    const std::string where = "line " + std::to_string(line) + ": ";
    const std::size_t equals = content.find('=');
    const std::string_view name = trimmed(content.substr(0, equals));
    if (equals == std::string_view::npos || name.empty())
      throw Error(ErrorCode::invalid_argument, where + "expected NAME = VALUE");
    try {
      settings.push_back({line, std::string(name), std::string(value_in(content.substr(equals + 1)))});
    } catch (const Error &error) {
      throw Error(error.code(), where + error.message());
    }
  }
  return settings;
}

}  // namespace parsyn::programs
