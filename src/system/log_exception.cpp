#include "system/log_exception.hpp"

#include "system/write_log.hpp"

namespace parsyn::system {

std::string sentence_of(const std::exception_ptr &cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception &error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

void log_exception(const LogSink &log, std::string_view id, std::string_view what) noexcept {
  if (!log) return;
  try {
    write_log(
        log,
        {LogLevel::error, id, std::string(what) + " failed: " + sentence_of(std::current_exception()), {}});
  } catch (...) {
    // There is no memory for a sentence.
  }
}

}  // namespace parsyn::system
