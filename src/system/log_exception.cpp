#include "system/log_exception.hpp"

#include <exception>
#include <string>

#include "system/write_log.hpp"

namespace parsyn::system {
namespace {

std::string sentence_of_current() {
  try {
    throw;
  } catch (const std::exception &error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

void log_exception(const LogSink &log, std::string_view id, std::string_view what) noexcept {
  if (!log) return;
  try {
    write_log(log, {LogLevel::error, id, std::string(what) + " failed: " + sentence_of_current(), {}});
  } catch (...) {
    // There is no memory for a sentence.
  }
}

}  // namespace parsyn::system
