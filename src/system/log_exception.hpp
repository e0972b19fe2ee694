// For the last catch of a thread: what was thrown is said, and the host's process lives on.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "parsyn/log.hpp"

namespace parsyn::system {

/// What it says of itself.
std::string sentence_of(const std::exception_ptr &cause);

/// Within a catch: an error in the log, "WHAT failed: ...". Itself throws nothing, whatever the sink does, or
/// when there is no memory.
void log_exception(const LogSink &log, std::string_view id, std::string_view what) noexcept;

}  // namespace parsyn::system
