// How the small programs of a host end: their exit code, or what went wrong on stderr.
#pragma once

#include <cstdio>
#include <exception>

/// The exit code of `body`; an exception becomes one line on stderr, and 1.
template <typename Body>
int run_example(const char *name, const Body &body) {
  try {
    return body();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}
