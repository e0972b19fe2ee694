#include "common/log_lines.hpp"

#include <array>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/line_writer.hpp"
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

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// A value that ends where it ends.
std::string field_value(const std::string &value) {
  const std::string plain = plain_text(value);
  if (!plain.empty() && plain.find_first_of(" \"=") == std::string::npos) return plain;
  return nlohmann::json(plain).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string log_line(const LogRecord &record, LogFormat format, std::int64_t time_ms) {
  if (format == LogFormat::text) {
    std::string line =
        utc_time(time_ms) + " " + padded(log_level_name(record.level), 7) + " " + plain_text(record.text);
    for (const auto &[name, value] : record.fields)
      line += " " + std::string(name) + "=" + field_value(value);
    return line;
  }
  nlohmann::ordered_json line{{"time", utc_time(time_ms)},
                              {"level", log_level_name(record.level)},
                              {"id", record.id},
                              {"text", record.text}};
  for (const auto &[name, value] : record.fields) line[std::string(name)] = value;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

LogSink make_stderr_log(const LogOptions &options) {
  const auto whole_line = [format = options.format](const LogRecord &record) {
    return log_line(record, format, now_ms()) + "\n";
  };
  LineWriter &lines = stderr_lines();
  lines.tell_drops_by([whole_line](std::uint64_t count) {
    return whole_line({LogLevel::warning, "log.dropped", dropped_text(count), {}});
  });
  return [&lines, whole_line, level_min = options.level_min](const LogRecord &record) {
    if (record.level >= level_min) lines.write(whole_line(record));
  };
}

}  // namespace parsyn::programs
