// A worker: asks a coordinator for tasks, trains with the host's Trainer, reports.
//
// Thread-safety: every method may be called from any thread.
// Lifetime: stop() and destruction return within limits::kStopBound plus the time of what cannot be
// interrupted: until the Trainer asks its monitor (one training step, one batch of an evaluation), or while
// one file of the cache is read, digested or written, or TrainerFactory::make_trainer runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "parsyn/dataset.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/log.hpp"
#include "parsyn/trainer.hpp"
#include "parsyn/transport.hpp"

namespace parsyn {

struct WorkerOptions {
  std::unique_ptr<Transport> transport = {};             ///< Required.
  std::shared_ptr<TrainerFactory> trainer_factory = {};  ///< Required.
  std::filesystem::path cache = {};  ///< For partitions and weights; of this worker alone, and locked until
                                     ///< it has been stopped. Empty: a fresh temporary one. New folders have
                                     ///< mode 0700, files 0600.
  /// Of the objects in `cache`: those used longest ago go first. What the current task uses stays, even over
  /// it.
  std::uint64_t cache_bytes_max = limits::kWorkerCacheBytesMax;
  std::map<std::string, std::shared_ptr<const Examples>> local_data = {};  ///< By dataset name.
  LogSink log = {};
  std::chrono::milliseconds backoff_first =
      limits::kBackoffFirst;  ///< Doubled at each try, jittered, without end.
  std::chrono::milliseconds backoff_max = limits::kBackoffMax;
  bool finish_task_on_stop = false;  ///< stop() lets the current task end first, however long that takes.
};

/// What the worker is doing, for a host's own display.
struct WorkerActivity {
  Id worker_id = 0;  ///< 0: no session yet.
  bool connected = false;
  std::string
      phase;  ///< "connecting", "waiting", "downloading", "evaluating", "training", "uploading", "stopped"
  Id job_id = 0;
  std::uint32_t round = 0;
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double examples_per_second = 0;
};

namespace worker {
struct MakeWorker;
}

class Worker {
 public:
  /// Starts at once. Throws Error: invalid_argument (no transport, no trainer factory); conflict (another
  /// worker, of this process or another one, has the cache); what the system says when the cache
  /// cannot be made or a thread cannot be started: io, not_found, unavailable.
  explicit Worker(WorkerOptions options);
  ~Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  WorkerActivity activity() const;
  /// Waits until the worker has stopped by itself (its token was revoked, a newer process has its place,
  /// another protocol version) or by stop(). Returns the reason; empty after stop().
  std::string wait();
  /// Like wait, for at most this long; false: still running.
  bool wait_for(std::chrono::milliseconds timeout);
  void stop();

 private:
  friend struct worker::MakeWorker;
  class Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace parsyn
