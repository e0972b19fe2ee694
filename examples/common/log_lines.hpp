// A log sink that writes lines to stderr.
//
// Text: "2026-01-31T12:00:00.250Z warning the lease of worker 3 has ended". JSON: one object a line with
// "time", "level", "id", "text" and the record's fields.
//
// A sink never waits for whoever reads stderr (line_writer.hpp): where nobody does, lines are dropped, and a
// warning "log.dropped" tells how many.
//
// Thread-safety: the sink may be called from any thread; a line is written as a whole.
#pragma once

#include <cstdint>
#include <string>

#include "parsyn/log.hpp"

namespace parsyn::programs {

enum class LogFormat { text, json };

struct LogOptions {
  LogFormat format = LogFormat::text;
  LogLevel level_min = LogLevel::info;
};

LogSink make_stderr_log(const LogOptions &options);

/// One line, without its end.
std::string log_line(const LogRecord &record, LogFormat format, std::int64_t time_ms);

}  // namespace parsyn::programs
