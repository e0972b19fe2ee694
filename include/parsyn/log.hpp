// Where parsyn's log lines go: to a function of the host's, or nowhere.
//
// The library has no global logger and never writes to a standard stream by itself.
//
// A sink should not throw. What one throws is ignored, and its line is lost: no work of parsyn's ends for it.
//
// Thread-safety: a sink is called from any thread, several at once, with no lock of parsyn held.
// Lifetime: a sink may be called until the object that it was given to is destroyed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parsyn {

enum class LogLevel { debug, info, warning, error };

constexpr std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

struct LogRecord {
  LogLevel level = LogLevel::info;
  std::string_view id = {};  ///< Static message id, e.g. "round.closed".
  std::string text = {};     ///< One UTF-8 sentence without a line break; never a token or a URL's query.
  std::vector<std::pair<std::string_view, std::string>> fields = {};
};

/// An empty sink discards.
using LogSink = std::function<void(const LogRecord &)>;

}  // namespace parsyn
