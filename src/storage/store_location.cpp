#include "storage/store_location.hpp"

#include <algorithm>
#include <string_view>

#include "parsyn/error.hpp"
#include "text/utf8.hpp"

namespace parsyn::storage {
namespace {

constexpr std::string_view kFileScheme = "file:";

[[noreturn]] void refuse(std::string_view location, const std::string &why) {
  throw Error(ErrorCode::invalid_argument,
              "object store location \"" + text::printable(location, 300) + "\" is not valid: " + why);
}

/// A location is text that may have passed through URL tools. What one of them could decode into another path
/// than the one that was checked is refused instead of guessed.
void check_folder_text(std::string_view location, std::string_view folder) {
  if (folder.empty()) refuse(location, "no folder is named; write file:/the/folder");
  if (folder.find('\0') != std::string_view::npos) refuse(location, "it has a NUL byte");
  if (folder.find_first_of("?#") != std::string_view::npos)
    refuse(location, "? and # cannot be part of the folder");
  if (folder.find('%') != std::string_view::npos) {
    refuse(location, "percent escapes are not decoded; write the folder's name as it is");
  }
  if (folder.find('\\') != std::string_view::npos) refuse(location, "folders are separated by /");
  if (folder.starts_with("//") && !folder.starts_with("///")) {
    refuse(location, "a host is not supported; write file:/the/folder or file:///the/folder");
  }
  for (std::string_view rest = folder; !rest.empty();) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    if (rest.substr(0, slash) == "..") refuse(location, "\"..\" is not followed; write the absolute path");
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
}

}  // namespace

std::optional<std::string> folder_of_location(const std::string &location) {
  if (location == "memory:") return std::nullopt;
  if (location.starts_with(kFileScheme)) {
    const std::string folder = location.substr(kFileScheme.size());
    check_folder_text(location, folder);
    return folder;
  }
  const std::size_t colon = location.find(':');
  if (colon == std::string::npos) refuse(location, "it has no scheme; write memory: or file:/the/folder");
  refuse(location, "the scheme \"" + text::printable(location.substr(0, colon), 40) +
                       "\" is unknown; this build knows memory: and file:");
}

}  // namespace parsyn::storage
