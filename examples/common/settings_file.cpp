#include "common/settings_file.hpp"

#include "parsyn/error.hpp"
#include "text/trimmed.hpp"

namespace parsyn::programs {
namespace {

/// With the carriage return that some editors leave before a line's end.
std::string_view trimmed(std::string_view text) { return text::trimmed(text, " \t\r"); }

}  // namespace

std::vector<FileSetting> parse_settings_file(std::string_view text) {
  std::vector<FileSetting> settings;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.empty() || content.starts_with('#')) continue;
    const std::size_t equals = content.find('=');
    const std::string_view name = trimmed(content.substr(0, equals));
    if (equals == std::string_view::npos || name.empty()) {
      throw Error(ErrorCode::invalid_argument, "line " + std::to_string(line) + ": expected NAME = VALUE");
    }
    std::string_view value = trimmed(content.substr(equals + 1));
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"'))
      value = value.substr(1, value.size() - 2);
    settings.push_back({line, std::string(name), std::string(value)});
  }
  return settings;
}

}  // namespace parsyn::programs
