#include "worker/work.hpp"

#ifdef PARSYN_WITH_TORCH

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "common/log_lines.hpp"
#include "common/program.hpp"
#include "common/stop_signals.hpp"
#include "common/token_file.hpp"
#include "core/counted.hpp"
#include "parsyn/dataset.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "parsyn/torch.hpp"
#include "parsyn/worker.hpp"
#include "system/sha256.hpp"

namespace parsyn::programs {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};
constexpr std::chrono::seconds kProgressInterval{10};
constexpr std::size_t kCacheNameCharacters = 16;

/// One folder for each coordinator and token, so that two workers of one user do not share it.
std::filesystem::path default_cache(const std::string &coordinator, const std::string &token) {
  std::filesystem::path base;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    base = cache;
  } else if (const char *home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    base = std::filesystem::path(home) / ".cache";
  } else {
    throw WrongUsage("there is no home folder to keep a cache in: give --cache");
  }
  return base / "parsyn" / system::sha256_hex(coordinator + "\n" + token).substr(0, kCacheNameCharacters);
}

std::map<std::string, std::shared_ptr<const Examples>> read_data(const WorkerProgramOptions &options) {
  std::map<std::string, std::shared_ptr<const Examples>> data;
  for (const auto &[name, path] : options.data) {
    DatasetFileOptions file;
    file.path = path;
    file.label_column = options.data_label_column;
    data.emplace(name, std::make_shared<const Examples>(read_examples(file)));
  }
  return data;
}

/// Tells now and then how far a long task is.
class ProgressLog {
 public:
  explicit ProgressLog(const LogSink &log) : log_(log) {}

  void look(const WorkerActivity &activity) {
    const auto now = std::chrono::steady_clock::now();
    const bool other_task = activity.job_id != job_id_ || activity.round != round_;
    if (other_task || activity.phase != "training") last_ = now;
    job_id_ = activity.job_id;
    round_ = activity.round;
    if (now - last_ < kProgressInterval) return;
    last_ = now;
    log_({LogLevel::info,
          "worker.progress",
          "job " + std::to_string(activity.job_id) + " round " + std::to_string(activity.round) + ": step " +
              std::to_string(activity.step) + " of " + std::to_string(activity.steps) + ", " +
              std::to_string(std::lround(activity.examples_per_second)) + " examples/s",
          {}});
  }

 private:
  const LogSink &log_;
  Id job_id_ = 0;
  std::uint32_t round_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

int work(const WorkerProgramOptions &options) {
  // Before any thread: the library's threads must not receive these signals.
  StopSignals signals;
  const LogSink log = make_stderr_log(options.log);
  const auto say = [&](LogLevel level, std::string_view id, const std::string &text) {
    log({level, id, text, {}});
  };
  const std::string token = read_token_file(options.token_file, [&](const std::string &text) {
    say(LogLevel::warning, "worker.token_open", text);
  });

  const auto data = read_data(options);
  for (const auto &[name, examples] : data) {
    say(LogLevel::info, "worker.data",
        core::counted(examples->count(), "example") + " of its own for the dataset " + name);
  }
  const auto start = [&](const std::filesystem::path &cache) {
    log({LogLevel::info,
         "worker.started",
         "parsyn-worker connects to " + options.connection.url,
         {{"version", PARSYN_VERSION},
          {"device", options.device},
          {"cache", cache.empty() ? "temporary" : cache.string()}}});
    WorkerOptions settings;
    HttpTransportOptions transport = options.connection;
    transport.token = token;
    settings.transport = make_http_transport(transport);
    settings.trainer_factory = make_torch_trainer_factory({.device = options.device, .log = log});
    settings.cache = cache;
    settings.cache_bytes_max = options.cache_bytes_max;
    settings.local_data = data;
    settings.log = log;
    settings.finish_task_on_stop = options.finish_task;
    return std::make_unique<Worker>(std::move(settings));
  };
  std::unique_ptr<Worker> running;
  try {
    running = start(options.cache.empty() ? default_cache(options.connection.url, token) : options.cache);
  } catch (const Error &error) {
    if (error.code() != ErrorCode::conflict || !options.cache.empty()) throw;
    // One that hangs must not keep its successor, which takes its place at the coordinator, from starting.
    say(LogLevel::warning, "worker.cache_taken",
        error.message() + "; this one takes its place, with a temporary cache");
    running = start({});
  }
  Worker &worker = *running;
  ProgressLog progress(log);
  while (signals.received() == 0 && !worker.wait_for(kLookInterval)) progress.look(worker.activity());
  if (signals.received() != 0) {
    say(LogLevel::info, "worker.stopping", "stopping on signal " + std::to_string(signals.received()));
    worker.stop();
    say(LogLevel::info, "worker.stopped", "parsyn-worker has stopped");
    return kWorked;
  }
  say(LogLevel::info, "worker.stopped", "parsyn-worker has stopped by itself");
  throw Error(ErrorCode::unavailable, "the worker has ended: " + worker.wait());
}

}  // namespace parsyn::programs

#endif
