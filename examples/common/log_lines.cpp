#include "common/log_lines.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/plain_text.hpp"

namespace parsyn::programs {
namespace {

std::string utc_time(std::int64_t time_ms) {
  const auto seconds = static_cast<std::time_t>(time_ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string milliseconds = std::to_string(time_ms % 1000);
  milliseconds.insert(0, 3 - milliseconds.size(), '0');
  return std::string(text.data(), length) + "." + milliseconds + "Z";
}

}  // namespace

std::string log_line(const LogRecord &record, LogFormat format, std::int64_t time_ms) {
  if (format == LogFormat::text) {
    return utc_time(time_ms) + " " + padded(log_level_name(record.level), 7) + " " + plain_text(record.text);
  }
  nlohmann::ordered_json line{{"time", utc_time(time_ms)},
                              {"level", log_level_name(record.level)},
                              {"id", record.id},
                              {"text", record.text}};
  for (const auto &[name, value] : record.fields) line[std::string(name)] = value;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

LogSink make_stderr_log(const LogOptions &options) {
  return [options](const LogRecord &record) {
    if (record.level < options.level_min) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    const std::string line = log_line(record, options.format, time_ms) + "\n";
    // One call, which locks the stream: lines of several threads do not mix.
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
}

}  // namespace parsyn::programs
