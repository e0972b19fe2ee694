// How a test serves a coordinator over HTTP.
#pragma once

#include "parsyn/http.hpp"

namespace parsyn::test {

inline constexpr char kOperatorToken[] = "the-operator-of-tests";

/// Plain HTTP on loopback, at a free port.
inline ServeOptions loopback_serving() {
  ServeOptions options;
  options.port = 0;
  options.operator_token = kOperatorToken;
  return options;
}

}  // namespace parsyn::test
