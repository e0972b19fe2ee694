// A log sink that writes lines to stderr.
//
// Text: "2026-01-31T12:00:00.250Z warning round 2 failed job=3": the sentence, then the record's fields; a
// value with white space, a quotation mark or "=" in it, and an empty one, is in quotation marks, as JSON
// writes it. JSON: one object a line with "time", "level", "id", "text" and the fields, whose values are
// text.
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
