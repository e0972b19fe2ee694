// The target of a request line: which path and which query it names.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace parsyn::http {

struct RequestTarget {
  std::string path;                          ///< Percent-decoded once; starts with '/'.
  std::map<std::string, std::string> query;  ///< Names and values decoded; '+' is a space.
};

/// Of the forms of RFC 9112, section 3.2, origin-form and absolute-form. Throws Error(invalid_argument):
/// another form, broken escapes, NUL, a '.' or '..' segment once decoded, a repeated query name.
RequestTarget parse_request_target(std::string_view target);

}  // namespace parsyn::http
