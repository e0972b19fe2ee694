// The file of --config: one "NAME = VALUE" a line, where NAME is a flag without its dashes.
//
//   # a comment
//   listen = 127.0.0.1:8080    # another one
//   allow-plain-http = true
//   state = "/a folder # 2"
//
// A value goes to the end of its line, or to a "#" that follows white space; white space around it is
// dropped. One that begins with a double quote goes to the next one instead, and keeps whatever is between
// them. A flag that may be given several times may have several lines.
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
