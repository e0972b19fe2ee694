// The one way into a host's log.
#pragma once

#include "parsyn/log.hpp"

namespace parsyn::system {

/// A sink that throws is ignored: a line of the log is not worth the work that it tells of, and in a catch it
/// would end the process.
inline void write_log(const LogSink &sink, const LogRecord &record) noexcept {
  if (!sink) return;
  try {
    sink(record);
  } catch (...) {
    // Nobody is left to tell.
  }
}

}  // namespace parsyn::system
