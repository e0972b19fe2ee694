// Which parsyn::Error an expression throws.
#pragma once

#include <string>

#include "parsyn/error.hpp"
#include "support/catch.hpp"

namespace parsyn::test {

/// The error that `action` throws; fails the test when it throws none.
template <typename Action>
Error error_of(Action &&action) {
  try {
    action();
  } catch (const Error &error) {
    return error;
  }
  FAIL("no parsyn::Error was thrown");
  throw 0;
}

inline bool mentions(const Error &error, const std::string &text) {
  return error.message().find(text) != std::string::npos;
}

}  // namespace parsyn::test
