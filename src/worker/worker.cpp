#include "parsyn/worker.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "core/counted.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "system/folder_lock.hpp"
#include "system/owning_process.hpp"
#include "system/runtime.hpp"
#include "system/write_log.hpp"
#include "worker/backoff.hpp"
#include "worker/make_worker.hpp"
#include "worker/progress_board.hpp"
#include "worker/task_runner.hpp"

namespace parsyn {
namespace {

constexpr char kSoftware[] = "parsyn 0.1.0";
constexpr int kCorruptTransfersMax = 3;

bool is_transient(const Error &error) {
  return error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout;
}

/// Of a call that touches nothing here: the coordinator is away, or in trouble that may pass.
bool is_coordinator_away(const Error &error) {
  return is_transient(error) || error.code() == ErrorCode::io || error.code() == ErrorCode::internal;
}

bool has_fault(const Error &error, std::string_view code) {
  return std::ranges::any_of(error.faults(), [&](const Fault &fault) { return fault.code == code; });
}

/// A folder of its own, removed with everything in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(system::Runtime &runtime)
      : path_(std::filesystem::temp_directory_path() / ("parsyn-worker-" + runtime.random_hex(8))) {
    system::make_folders(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  const std::filesystem::path &path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

class Worker::Impl {
 public:
  /// `cache_lock`: of the cache that the options name; on a simulated machine there is none.
  Impl(WorkerOptions options, system::Runtime &runtime,
       std::unique_ptr<const system::FolderLock> cache_lock = nullptr);
  ~Impl() { stop(); }

  const system::OwningProcess process;
  /// Throws Error(unsupported) in a child of a fork().
  Impl &here() {
    process.check("the worker");
    return *this;
  }

  WorkerActivity activity() const;
  std::string wait();
  bool wait_for(std::chrono::milliseconds timeout);
  void stop();

 private:
  void run();
  std::unique_ptr<worker::TaskRunner> make_runner();
  void work_in_session();
  bool open_session();
  void handle(const Task &task);
  /// Before a task of a job of which the last one has failed here.
  void pause_before(const Task &task);
  /// Whether what was delivered, or is not to be delivered any more, is a failure.
  bool deliver(Report report);
  /// What it was asked has been answered.
  void on_answer();
  void beat();
  /// Nothing when it has arrived; else why not, and what it was to tell is told by a later one.
  std::optional<Error> send_heartbeat();
  void on_heartbeat_lost(const Error &error, std::uint64_t lease);
  class HeartbeatTurn;
  void on_lease_error(const Error &error, std::uint64_t lease);
  template <typename Call>
  void transfer(const Call &call, const char *what);
  /// Tells the user of `trouble`, and waits as long as is wise, or until a heartbeat finds the coordinator
  /// back. False when the worker is to stop instead, or
  /// `over`.
  bool wait_to_try_again(std::string_view id, const std::string &trouble, const Error &error,
                         const std::function<bool()> &over = {});
  bool wait_for_coordinator(const Error &error, const std::string &what = {});
  void end_with(std::string reason);
  void log(LogLevel level, std::string_view id, std::string text) const;

  WorkerOptions options_;
  system::Runtime &runtime_;
  std::unique_ptr<const system::FolderLock> cache_lock_;  // held until nothing uses the cache any more
  std::optional<TemporaryFolder> temporary_;
  const std::string instance_;
  worker::ProgressBoard board_;
  worker::Backoff backoff_;                     // the main thread's
  worker::Backoff after_failures_;              // the main thread's
  Id failed_job_ = 0;                           // the main thread's; of the last task that failed, 0: none
  Time not_before_{0};                          // the main thread's; the next task of that job
  std::unique_ptr<worker::TaskRunner> runner_;  // the main thread's

  mutable std::mutex mutex_;
  const std::unique_ptr<system::Signal> changed_;
  bool stopping_ = false;
  bool finishing_ = false;  // the current task is the last one
  bool ended_ = false;
  bool busy_ = false;
  bool lease_lost_ = false;
  std::string reason_;
  std::optional<SessionGrant> grant_;
  bool sending_heartbeat_ = false;  // one at a time, so that losses arrive in order
  bool heartbeats_lost_ = false;    // and told; of whoever sends one
  bool has_returned_ = false;       // heartbeats arrive again, which the main thread has not made use of yet

  std::once_flag joined_;
  std::unique_ptr<system::Thread> main_thread_;
  std::unique_ptr<system::Thread> heartbeat_thread_;
};

/// Held while a heartbeat is sent: a lock that may be waited for as long as a request takes.
class Worker::Impl::HeartbeatTurn {
 public:
  explicit HeartbeatTurn(Impl &worker) : worker_(worker) {
    std::unique_lock lock(worker_.mutex_);
    worker_.changed_->wait(lock, [this] { return !worker_.sending_heartbeat_; });
    worker_.sending_heartbeat_ = true;
  }
  ~HeartbeatTurn() {
    {
      const std::lock_guard lock(worker_.mutex_);
      worker_.sending_heartbeat_ = false;
    }
    worker_.changed_->notify_all();
  }
  HeartbeatTurn(const HeartbeatTurn &) = delete;
  HeartbeatTurn &operator=(const HeartbeatTurn &) = delete;

 private:
  Impl &worker_;
};

Worker::Impl::Impl(WorkerOptions options, system::Runtime &runtime,
                   std::unique_ptr<const system::FolderLock> cache_lock)
    : options_(std::move(options)),
      runtime_(runtime),
      cache_lock_(std::move(cache_lock)),
      instance_(runtime.random_hex(16)),
      board_(runtime),
      backoff_(options_.backoff_first, options_.backoff_max, runtime),
      after_failures_(std::min(limits::kFailurePauseFirst, options_.backoff_max), options_.backoff_max,
                      runtime),
      changed_(runtime.make_signal()) {
  if (!options_.transport) throw Error(ErrorCode::invalid_argument, "a worker needs a transport");
  if (!options_.trainer_factory) throw Error(ErrorCode::invalid_argument, "a worker needs a trainer factory");
  if (options_.cache.empty()) options_.cache = temporary_.emplace(runtime).path();
  runner_ = make_runner();
  heartbeat_thread_ = runtime_.start([this] { beat(); });
  try {
    main_thread_ = runtime_.start([this] { run(); });
  } catch (...) {
    // The other one waits for a session, and nobody has asked for one.
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_->notify_all();
    heartbeat_thread_.reset();
    throw;
  }
}

std::unique_ptr<worker::TaskRunner> Worker::Impl::make_runner() {
  worker::TaskRunnerOptions runner;
  runner.cache = options_.cache;
  runner.cache_bytes_max = options_.cache_bytes_max;
  runner.trainer_factory = options_.trainer_factory.get();
  runner.local_data = &options_.local_data;
  const auto keep_going = [this](std::uint64_t, std::uint64_t) { return !board_.cancelled(); };
  runner.download = [this, keep_going](const ObjectRef &object, const std::filesystem::path &file) {
    transfer([&] { options_.transport->download(object, file, keep_going); }, "download");
  };
  runner.upload = [this, keep_going](const UploadSlot &slot, const std::filesystem::path &file) {
    transfer([&] { options_.transport->upload(slot, file, keep_going); }, "upload");
  };
  return std::make_unique<worker::TaskRunner>(std::move(runner), board_);
}

void Worker::Impl::run() {
  try {
    while (open_session()) work_in_session();
  } catch (const Error &error) {
    end_with(error.code() == ErrorCode::cancelled ? std::string() : error.message());
  } catch (const std::exception &error) {
    end_with(std::string("unexpected: ") + error.what());
  }
  std::optional<SessionGrant> grant;
  {
    const std::lock_guard lock(mutex_);
    grant = std::exchange(grant_, std::nullopt);
  }
  if (grant) {
    try {
      options_.transport->close_session(grant->lease);
    } catch (const Error &) {
      // The lease ends by itself.
    }
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ended_ = true;
  }
  changed_->notify_all();
}

bool Worker::Impl::open_session() {
  SessionRequest request;
  request.software = kSoftware;
  request.instance = instance_;
  request.capabilities = options_.trainer_factory->capabilities();
  for (const auto &[name, examples] : options_.local_data)
    request.local_datasets.push_back({name, examples->count()});
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || finishing_) return false;
    }
    SessionGrant grant;
    try {
      grant = options_.transport->open_session(request);
    } catch (const Error &error) {
      if (!is_coordinator_away(error)) throw;
      if (!wait_for_coordinator(error)) return false;
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      grant_ = grant;
      lease_lost_ = false;
    }
    changed_->notify_all();
    backoff_.reset();
    log(LogLevel::info, "worker.connected",
        "connected as worker " + std::to_string(grant.worker_id) + " (" + grant.worker_name + ")");
    return true;
  }
}

void Worker::Impl::work_in_session() {
  for (;;) {
    std::uint64_t lease = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || finishing_ || lease_lost_ || !grant_) return;
      lease = grant_->lease;
    }
    std::optional<Task> task;
    try {
      task = options_.transport->next_task({.lease = lease, .wait = limits::kLongPoll});
      on_answer();
    } catch (const Error &error) {
      if (error.code() == ErrorCode::conflict) {
        on_lease_error(error, lease);
        continue;
      }
      if (!is_coordinator_away(error)) throw;
      if (!wait_for_coordinator(error)) return;
      continue;
    }
    if (task) handle(*task);
  }
}

void Worker::Impl::handle(const Task &task) {
  Id worker_id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || finishing_ || lease_lost_) return;
    worker_id = grant_->worker_id;
    busy_ = true;
    board_.begin(task);
  }
  changed_->notify_all();
  const std::string what = "job " + std::to_string(task.job_id) + " round " + std::to_string(task.round) +
                           " of " + std::to_string(task.num_rounds);
  log(LogLevel::info, "worker.task",
      what + (task.kind == Task::Kind::train ? ": training " + core::counted(task.steps, "step")
                                             : ": evaluating the final model"));
  try {
    pause_before(task);
    Report report = runner_->run(task, worker_id);
    if (!report.failure.empty())
      log(LogLevel::error, "worker.task_failed", what + " failed: " + report.failure);
    if (deliver(std::move(report))) {
      failed_job_ = task.job_id;
      not_before_ = runtime_.now() + after_failures_.next();
    } else if (failed_job_ == task.job_id) {
      failed_job_ = 0;
      after_failures_.reset();
    }
  } catch (const Error &error) {
    if (error.code() != ErrorCode::cancelled) {
      log(LogLevel::warning, "worker.task_dropped", what + " is dropped: " + error.message());
    } else {
      log(LogLevel::info, "worker.task_dropped", what + " is dropped: it is over for this worker");
    }
  }
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    board_.end();
  }
  changed_->notify_all();
}

void Worker::Impl::pause_before(const Task &task) {
  const Time now = runtime_.now();
  if (task.job_id != failed_job_ || now >= not_before_) return;
  log(LogLevel::info, "worker.pauses",
      "the last task of this job has failed here: this one begins in " +
          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(not_before_ - now).count()) +
          " ms");
  std::unique_lock lock(mutex_);
  runtime_.wait_until(*changed_, lock, not_before_,
                      [this] { return stopping_ || finishing_ || lease_lost_ || board_.cancelled(); });
}

bool Worker::Impl::deliver(Report report) {
  for (;;) {
    // What is not told before the report is not told at all; but the report does not wait for it.
    while (board_.has_losses() && !board_.cancelled() && !send_heartbeat()) {
    }
    {
      const std::lock_guard lock(mutex_);
      if (lease_lost_ || !grant_) return !report.failure.empty();
      report.lease = grant_->lease;
    }
    try {
      const ReportReceipt receipt = options_.transport->report(report);
      on_answer();
      if (!receipt.accepted)
        log(LogLevel::warning, "worker.report_refused",
            "the report was refused (" + receipt.code + "): " + receipt.reason);
      return !report.failure.empty();
    } catch (const Error &error) {
      if (error.code() == ErrorCode::conflict) {
        on_lease_error(error, report.lease);
        return !report.failure.empty();
      }
      if (!is_coordinator_away(error)) {
        const bool about_report =
            error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::too_large;
        if (!about_report || !report.failure.empty()) throw;
        // Told nothing, the coordinator would hand out the same task again, to end the same way.
        report.failure = "the report was not taken: " + error.message();
        log(LogLevel::error, "worker.task_failed", report.failure);
        continue;
      }
      if (!wait_for_coordinator(error, "the report waits: ")) return !report.failure.empty();
    }
  }
}

template <typename Call>
void Worker::Impl::transfer(const Call &call, const char *what) {
  int corrupt = 0;
  for (;;) {
    try {
      call();
      on_answer();
      return;
    } catch (const Error &error) {
      if (error.code() == ErrorCode::forbidden || error.code() == ErrorCode::conflict) {
        // Access ends with the task.
        throw Error(ErrorCode::cancelled,
                    std::string("the ") + what + " is not allowed any more: " + error.message());
      }
      const bool again = is_transient(error) ||
                         (error.code() == ErrorCode::corrupt_data && ++corrupt < kCorruptTransfersMax);
      if (!again) throw;
      const std::string trouble = std::string("the ") + what + " broke off";
      if (!wait_to_try_again("worker.transfer_broken", trouble, error, [this] { return board_.cancelled(); }))
        throw Error(ErrorCode::cancelled, "the task is over");
    }
  }
}

void Worker::Impl::beat() {
  std::unique_lock lock(mutex_);
  const auto out_of_session = [this] { return ended_ || !grant_ || lease_lost_; };
  Time last = runtime_.now();
  std::optional<Error> failure;            // of the last heartbeat
  std::optional<worker::Backoff> backoff;  // since the last one that arrived
  while (!ended_) {
    if (out_of_session()) {
      changed_->wait(lock, [&] { return ended_ || !out_of_session(); });
      failure.reset();
      last = runtime_.now();
      continue;
    }
    const auto heartbeat_interval = grant_->heartbeat_interval;
    if (failure) {
      // Never much longer than between heartbeats that arrive: a coordinator that is back ends the leases of
      // those that it does not hear of.
      if (!backoff) backoff.emplace(options_.backoff_first, heartbeat_interval, runtime_);
      const auto wait = backoff->next(std::min(failure->retry_after(), heartbeat_interval));
      if (runtime_.wait_until(*changed_, lock, runtime_.now() + wait, out_of_session)) continue;
    } else {
      backoff.reset();
      // Often while there is progress to tell, else just often enough to keep the lease.
      const auto interval =
          busy_ ? std::min(grant_->progress_interval, heartbeat_interval) : heartbeat_interval;
      const bool was_busy = busy_;
      if (runtime_.wait_until(*changed_, lock, last + interval,
                              [&] { return out_of_session() || busy_ != was_busy; }))
        continue;
      const Time now = runtime_.now();
      const bool due = now - last >= heartbeat_interval;
      if (!due && !board_.has_news()) {
        runtime_.wait_until(*changed_, lock, now + interval, out_of_session);
        continue;
      }
    }
    last = runtime_.now();
    lock.unlock();
    failure = send_heartbeat();
    lock.lock();
  }
}

std::optional<Error> Worker::Impl::send_heartbeat() {
  Heartbeat heartbeat;
  const HeartbeatTurn turn(*this);
  {
    const std::lock_guard lock(mutex_);
    if (!grant_ || lease_lost_) return Error(ErrorCode::conflict, "there is no session");
    heartbeat.lease = grant_->lease;
  }
  heartbeat.progress = board_.take();
  std::optional<Error> failure;
  try {
    const HeartbeatAnswer answer = options_.transport->heartbeat(heartbeat);
    for (const std::uint64_t task : answer.cancelled_tasks) board_.cancel(task);
    if (!answer.cancelled_tasks.empty()) changed_->notify_all();
  } catch (const Error &error) {
    failure = error;
  } catch (const std::exception &error) {
    failure = Error(ErrorCode::internal, error.what());
  }
  if (failure) {
    if (heartbeat.progress) board_.give_back(*heartbeat.progress);
    on_heartbeat_lost(*failure, heartbeat.lease);
  } else if (std::exchange(heartbeats_lost_, false)) {
    {
      const std::lock_guard lock(mutex_);
      has_returned_ = true;
    }
    changed_->notify_all();
    log(LogLevel::info, "worker.heartbeats_arrive", "heartbeats arrive again");
  }
  return failure;
}

void Worker::Impl::on_heartbeat_lost(const Error &error, std::uint64_t lease) {
  if (error.code() == ErrorCode::cancelled) return;
  if (error.code() == ErrorCode::conflict) return on_lease_error(error, lease);
  if (error.code() == ErrorCode::unauthorized || error.code() == ErrorCode::protocol)
    return end_with(error.message());
  // Else most likely the coordinator is away for a moment: training goes on.
  const bool told = std::exchange(heartbeats_lost_, true);
  log(told ? LogLevel::debug : LogLevel::warning, "worker.heartbeat_lost",
      "heartbeats do not arrive (" + error.message() + "); work goes on, and they are tried again");
}

void Worker::Impl::on_lease_error(const Error &error, std::uint64_t lease) {
  const bool superseded = has_fault(error, "lease_superseded");
  {
    const std::lock_guard lock(mutex_);
    // Of a session that is replaced already, or is being replaced by this process itself: a heartbeat that
    // was under way then hears of its own successor.
    if (!grant_ || grant_->lease != lease || lease_lost_) return;
    if (!superseded) {
      lease_lost_ = true;
      board_.cancel_any();
    }
  }
  if (superseded) return end_with(error.message());
  changed_->notify_all();
  log(LogLevel::warning, "worker.lease_lost", error.message());
}

void Worker::Impl::on_answer() {
  backoff_.reset();
  const std::lock_guard lock(mutex_);
  has_returned_ = false;
}

bool Worker::Impl::wait_to_try_again(std::string_view id, const std::string &trouble, const Error &error,
                                     const std::function<bool()> &over) {
  const auto wait = backoff_.next(error.retry_after());
  log(LogLevel::warning, id,
      trouble + " (" + error.message() + "); trying again in " + std::to_string(wait.count()) + " ms");
  std::unique_lock lock(mutex_);
  const auto no_more = [&] { return stopping_ || (over && over()); };
  const Time now = runtime_.now();
  // A return between the failure and this moment counts: the next try may be one for nothing.
  if (!runtime_.wait_until(*changed_, lock, now + error.retry_after(), no_more))
    runtime_.wait_until(*changed_, lock, now + wait, [&] { return has_returned_ || no_more(); });
  has_returned_ = false;
  return !no_more();
}

bool Worker::Impl::wait_for_coordinator(const Error &error, const std::string &what) {
  return wait_to_try_again("worker.coordinator_away", what + "the coordinator cannot be reached", error);
}

void Worker::Impl::end_with(std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    reason_ = std::move(reason);
    board_.cancel_any();
  }
  changed_->notify_all();
  options_.transport->interrupt();
}

void Worker::Impl::stop() {
  {
    std::unique_lock lock(mutex_);
    if (options_.finish_task_on_stop && !ended_) {
      finishing_ = true;
      changed_->wait(lock, [this] { return !busy_ || ended_ || stopping_; });
    }
    stopping_ = true;
    board_.cancel_any();
  }
  changed_->notify_all();
  options_.transport->interrupt();
  std::call_once(joined_, [this] {
    main_thread_.reset();
    heartbeat_thread_.reset();
    cache_lock_.reset();
  });
}

WorkerActivity Worker::Impl::activity() const {
  const std::lock_guard lock(mutex_);
  WorkerActivity activity;
  activity.phase = ended_ ? "stopped" : grant_ ? "waiting" : "connecting";
  if (grant_) {
    activity.worker_id = grant_->worker_id;
    activity.connected = !lease_lost_;
  }
  board_.fill(activity);
  return activity;
}

std::string Worker::Impl::wait() {
  std::unique_lock lock(mutex_);
  changed_->wait(lock, [this] { return ended_; });
  return reason_;
}

bool Worker::Impl::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return runtime_.wait_until(*changed_, lock, runtime_.now() + timeout, [this] { return ended_; });
}

void Worker::Impl::log(LogLevel level, std::string_view id, std::string text) const {
  system::write_log(options_.log, {level, id, std::move(text), {}});
}

struct worker::MakeWorker {
  static std::unique_ptr<Worker> on(WorkerOptions options, system::Runtime &runtime) {
    return std::unique_ptr<Worker>(new Worker(std::make_unique<Worker::Impl>(std::move(options), runtime)));
  }
};

std::unique_ptr<Worker> worker::make_worker(WorkerOptions options, system::Runtime &runtime) {
  return MakeWorker::on(std::move(options), runtime);
}

Worker::Worker(WorkerOptions options) {
  // Before anything in the cache is touched: what is in it may be another worker's, and in use.
  std::unique_ptr<const system::FolderLock> cache_lock;
  if (!options.cache.empty()) {
    system::make_folders(options.cache);
    cache_lock = std::make_unique<const system::FolderLock>(
        options.cache,
        system::FolderLockOptions{.holder = "worker", .advice = "give this one another folder (--cache)"});
  }
  impl_ = std::make_unique<Impl>(std::move(options), system::system_runtime(), std::move(cache_lock));
}
Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() {
  // In a child of a fork() there is nothing to join, and locks may be held for ever.
  if (impl_ && !impl_->process.is_this()) static_cast<void>(impl_.release());
}
WorkerActivity Worker::activity() const { return impl_->here().activity(); }
std::string Worker::wait() { return impl_->here().wait(); }
bool Worker::wait_for(std::chrono::milliseconds timeout) { return impl_->here().wait_for(timeout); }
void Worker::stop() {
  if (impl_->process.is_this()) impl_->stop();
}

}  // namespace parsyn
