// Life cycle, events and time of the coordinator.
#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/make_coordinator.hpp"
#include "coordinator/process_bound.hpp"
#include "parsyn/limits.hpp"
#include "system/write_log.hpp"

namespace parsyn {

std::unique_ptr<Coordinator> make_coordinator(const CoordinatorOptions &options) {
  std::vector<Fault> faults;
  if (!options.store) faults.push_back({"store", "required", "a coordinator needs an object store"});
  if (options.heartbeat_interval.count() <= 0)
    faults.push_back({"heartbeat_interval", "range", "must be positive"});
  if (options.lease_duration < 2 * options.heartbeat_interval) {
    faults.push_back(
        {"lease_duration", "range",
         "must be at least twice the heartbeat interval, so that one lost heartbeat ends no lease"});
  }
  if (options.progress_interval.count() <= 0)
    faults.push_back({"progress_interval", "range", "must be positive"});
  if (options.join_window.count() < 0) faults.push_back({"join_window", "range", "must not be negative"});
  if (options.keep_rounds == 0) faults.push_back({"keep_rounds", "range", "must be at least 1"});
  if (!faults.empty()) {
    std::string message = "the coordinator's options are wrong";
    for (const Fault &fault : faults) message += "; " + fault.field + ": " + fault.message;
    throw Error(ErrorCode::invalid_argument, message, std::move(faults));
  }
  return coordinator::bind_to_process(coordinator::make_coordinator(options, system::system_runtime()));
}

namespace coordinator {

namespace {

/// How much an event of a job asks for somebody's attention.
LogLevel level_of(std::string_view event_type) {
  static constexpr std::array<std::string_view, 4> kWarnings{"report_refused", "round_failed",
                                                             "storage_waits", "worker_stalled"};
  if (event_type == "job_failed") return LogLevel::error;
  return std::ranges::find(kWarnings, event_type) != kWarnings.end() ? LogLevel::warning : LogLevel::info;
}

}  // namespace

std::unique_ptr<Coordinator> make_coordinator(const CoordinatorOptions &options, system::Runtime &runtime) {
  return std::make_unique<CoordinatorImpl>(options, runtime);
}

CoordinatorImpl::CoordinatorImpl(const CoordinatorOptions &options, system::Runtime &runtime)
    : options_(options),
      runtime_(runtime),
      journal_(options.journal ? options.journal : make_memory_journal()),
      job_changed_(runtime.make_signal()) {
  const Time began = runtime_.now();
  restore();
  sessions_.extend(runtime_.now() - began);  // weights may have been read meanwhile
  // Not as a command, before which others might come: a worker that goes on with its task must not be told
  // that it has none.
  const auto first = std::make_shared<Batch>();
  resume(*first);
  const unsigned threads =
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  loop_ = std::make_unique<Loop>(
      *journal_, mutex_, runtime_,
      Loop::Hooks{[this](Time now, Batch &batch) { on_time(now, batch); }, [this] { return next_wake(); },
                  [this](const std::string &reason, bool broken) { on_journal(reason, broken); },
                  [this](Time duration, Batch &batch) { on_held_up(duration, batch); },
                  // A lease outlives one lost heartbeat, and a shorter commit costs nobody more.
                  options_.heartbeat_interval});
  pool_ = std::make_unique<system::ThreadPool>(threads, runtime_);
  loop_->post({[first](Batch &batch) { batch = std::move(*first); }, {}});
}

CoordinatorImpl::~CoordinatorImpl() {
  stop();
  loop_->end_callbacks();  // they post to the pool
  // Then the members, from the last: not by reset(), which hides the pool from its own work that still runs.
}

void CoordinatorImpl::stop() {
  if (!stopping_.exchange(true)) {
    // The last command: parked workers are told to ask again elsewhere or later. Clocks are kept, as nobody
    // does it while work that runs is waited for.
    try {
      loop_->post({[this](Batch &batch) {
                     sessions_.release_all_polls(batch.effects);
                     for (const auto &[id, entry] : open_jobs_) {
                       if (entry->clock_kept) keep_clock(*entry, batch);
                     }
                   },
                   {}});
    } catch (const Error &) {
    }
  }
  loop_->stop();
  const std::lock_guard lock(mutex_);
  job_changed_->notify_all();
}

void CoordinatorImpl::on_journal(const std::string &reason, bool broken) {
  if (broken) {
    broken_ = true;
    const std::lock_guard lock(mutex_);
    job_changed_->notify_all();
    // They would wait for tasks that nobody gives any more.
    Effects answers;
    sessions_.release_all_polls(answers);
    for (auto &answer : answers) loop_->later(std::move(answer));
  }
  loop_->later([this, reason, broken] {
    if (reason.empty()) {
      log_now(LogLevel::info, "journal.goes_on", "the journal can be written again: all goes on");
    } else if (broken) {
      log_now(LogLevel::error, "coordinator.broken",
              reason + ". Nothing is changed any more; start the coordinator again when the cause is gone");
    } else {
      log_now(LogLevel::error, "journal.stalled", reason + ". It is tried again until it works");
    }
  });
}

void CoordinatorImpl::on_time(Time now, Batch &batch) {
  if (stopping_) return keep_changes(batch);
  for (const Id worker : sessions_.expired(now)) {
    log(LogLevel::warning, "worker.lost",
        "the lease of worker " + std::to_string(worker) + " has ended: no heartbeat came", batch);
    end_session(worker, batch);
  }
  sessions_.release_polls(now, batch.effects);
  for (auto next = open_jobs_.begin(); next != open_jobs_.end();) {
    JobEntry &entry = *(next++)->second;  // step() takes out a job that ends
    if (entry.wake_at && *entry.wake_at <= now) {
      entry.wake_at.reset();
      step(entry, core::Tick{}, batch);
    }
    if (entry.clock_kept && *entry.clock_kept + limits::kClockInterval <= now) keep_clock(entry, batch);
  }
  while (!retries_.empty() && retries_.begin()->first <= now) {
    work_later(batch, std::move(retries_.begin()->second));
    retries_.erase(retries_.begin());
  }
  keep_changes(batch);
}

void CoordinatorImpl::on_held_up(Time duration, Batch &batch) {
  sessions_.extend(duration);
  step_all(HeldUp{duration}, batch);
}

std::optional<Time> CoordinatorImpl::next_wake() const {
  std::optional<Time> next = sessions_.next_wake();
  const auto wake_by = [&next](std::optional<Time> time) {
    if (time && (!next || *time < *next)) next = time;
  };
  for (const auto &[id, entry] : open_jobs_) {
    wake_by(entry->wake_at);
    if (entry->clock_kept) wake_by(*entry->clock_kept + limits::kClockInterval);
  }
  if (!retries_.empty()) wake_by(retries_.begin()->first);
  return next;
}

std::shared_ptr<void> CoordinatorImpl::subscribe(Id job, std::function<void()> notify) const {
  const std::lock_guard lock(mutex_);
  return find_job(job).events.subscribe(std::move(notify));
}

void CoordinatorImpl::publish(JobEntry &entry, core::Notice notice, Batch &batch) {
  Event event;
  event.job_id = entry.job.setup().id;
  event.time_ms = runtime_.wall_ms();
  event.type = std::move(notice.type);
  event.text = std::move(notice.text);
  event.fields = std::move(notice.fields);
  const std::uint64_t oldest = entry.events.first_kept();
  const Event &kept = entry.events.append(std::move(event));
  if (oldest != 0 && entry.events.first_kept() != oldest)
    batch.writes.push_back({"events", wire::journal_key({kept.job_id, oldest}), {}});
  if (kept.type != kProgressEvent) {
    batch.writes.push_back(
        {"events", wire::journal_key({kept.job_id, kept.sequence}), wire::encode_stored(kept)});
  }
  if (kept.sequence > entry.event_ceiling) {
    entry.event_ceiling = kept.sequence + kEventSequenceBlock;
    batch.writes.push_back(
        {"event_ceilings", wire::journal_key({kept.job_id}), std::to_string(entry.event_ceiling)});
  }
  if (options_.log && kept.type != kProgressEvent) {
    batch.effects.push_back([this, text = kept.text, type = kept.type, job = kept.job_id] {
      system::write_log(options_.log,
                        {level_of(type), "job.event", text, {{"job", std::to_string(job)}, {"type", type}}});
    });
  }
  for (auto &subscriber : entry.events.subscribers()) {
    batch.effects.push_back([subscriber] { subscriber->call(); });
  }
}

void CoordinatorImpl::log(LogLevel level, std::string_view id, std::string text, Batch &batch) const {
  if (!options_.log) return;
  batch.effects.push_back([this, level, id, text = std::move(text)] { log_now(level, id, text); });
}

void CoordinatorImpl::log_now(LogLevel level, std::string_view id, std::string text) const {
  system::write_log(options_.log, {level, id, std::move(text), {}});
}

void CoordinatorImpl::work_later(Batch &batch, std::function<void()> work) {
  const auto or_break_off = [this](const auto &act) {
    try {
      act();
    } catch (...) {
      loop_->break_off(std::current_exception());
    }
  };
  batch.effects.push_back([this, or_break_off, work = std::move(work)] {
    or_break_off([&] {
      if (!stopping_) pool_->post([or_break_off, work] { or_break_off(work); });
    });
  });
}

void CoordinatorImpl::step_later(Id job, core::JobEvent event,
                                 std::function<void(JobEntry &, Batch &)> before) {
  try {
    loop_->post({[this, job, event = std::move(event), before = std::move(before)](Batch &batch) {
                   JobEntry &entry = find_job(job);
                   if (before) before(entry, batch);
                   step(entry, event, batch);
                 },
                 {}});
  } catch (const Error &) {
    // Stopped: the job stays as it is.
  }
}

}  // namespace coordinator
}  // namespace parsyn
