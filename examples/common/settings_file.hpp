// The file of --config: one "NAME = VALUE" a line, where NAME is a flag without its dashes.
//
//   # a comment
//   listen = 127.0.0.1:8080
//   allow-plain-http = true
//
// A value goes to the end of its line; white space around it is dropped, and so is a pair of double quotes. A
// flag that may be given several times may have several lines.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace parsyn::programs {

struct FileSetting {
  std::size_t line = 0;  ///< From 1.
  std::string name;
  std::string value;
};

/// Throws Error(invalid_argument) that names the line.
std::vector<FileSetting> parse_settings_file(std::string_view text);

}  // namespace parsyn::programs
