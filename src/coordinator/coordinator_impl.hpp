// The Coordinator: state, and who changes it. Commands run on the Loop under mutex_; reads take mutex_ only.
//
//   coordinator.cpp           life cycle, events, time
//   coordinator_registry.cpp  workers, datasets, models
//   coordinator_jobs.cpp      jobs: admission, status
//   coordinator_rounds.cpp    what a job's state machine asks for, done
//   coordinator_sessions.cpp  the WorkerService
//   coordinator_journal.cpp   what is kept of all this
//   coordinator_restore.cpp   and how it comes back
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/event_log.hpp"
#include "coordinator/loop.hpp"
#include "coordinator/loss_log.hpp"
#include "coordinator/sessions.hpp"
#include "core/job.hpp"
#include "parsyn/coordinator.hpp"
#include "system/interruptible.hpp"
#include "system/runtime.hpp"
#include "system/thread_pool.hpp"
#include "wire/journal_documents.hpp"

namespace parsyn::coordinator {

using system::InterruptibleSource;

class NewObjects;

/// A job with everything that its state machine does not see.
struct JobEntry {
  explicit JobEntry(core::Job state) : job(std::move(state)) {}

  core::Job job;
  ModelInfo model;
  DatasetInfo dataset;
  std::shared_ptr<const std::vector<TensorSpec>> specs;  // of the global model
  ObjectInfo initial_global;
  ObjectInfo global;  // the current one
  std::optional<ObjectInfo> module;
  std::optional<ObjectInfo> validation;
  std::vector<ObjectInfo> partitions;
  std::string partitioner;
  mutable EventLog events;  // whoever subscribes changes nothing of the job
  LossLog losses;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> started_ms;
  std::optional<std::int64_t> ended_ms;
  std::optional<Time> wake_at;
  std::string idempotency_key;
  std::set<std::uint32_t> kept_rounds;  // whose global models are stored

  /// Begun before this process: the store may have to read the whole of an update to tell its digest, which
  /// nothing interrupts. 0: none.
  std::uint32_t attempt_before = 0;

  core::JobChanges unkept;          // what the journal does not know yet
  std::optional<Time> clock_kept;   // when the time that remains was last kept
  std::uint64_t event_ceiling = 0;  // as the journal has it
  bool in_memory = true;            // events and losses; false: it has ended, they are in the journal only
  std::string cannot_go_on;         // after a restart: why
  /// Of each worker, the refusal that an event has told last.
  std::map<Id, std::string> told_refusals;
};

class CoordinatorImpl final : public Coordinator, private WorkerService {
 public:
  CoordinatorImpl(const CoordinatorOptions &options, system::Runtime &runtime);
  ~CoordinatorImpl() override;

  WorkerCredentials add_worker(const WorkerSpec &spec, const std::string &idempotency_key) override;
  void remove_worker(Id id) override;
  std::vector<WorkerInfo> workers() const override;
  WorkerInfo worker(Id id) const override;
  DatasetInfo add_dataset(const DatasetSpec &spec, const std::string &idempotency_key) override;
  DatasetInfo add_dataset(const std::string &name, const Examples &train,
                          const std::optional<Examples> &validation) override;
  std::vector<DatasetInfo> datasets() const override;
  DatasetInfo dataset(Id id) const override;
  ModelInfo add_model(const ModelSpec &spec, const std::string &idempotency_key) override;
  ModelInfo add_model(const ModelSpec &spec, const StateDict &weights) override;
  std::vector<ModelInfo> models() const override;
  ModelInfo model(Id id) const override;

  std::vector<Fault> check(const JobConfig &config) const override;
  std::vector<Fault> check_registry(const JobConfig &config,
                                    const std::vector<std::string> &unread) const override;
  JobStatus submit(const JobConfig &config, const std::string &idempotency_key) override;
  JobStatus job(Id id) const override;
  JobState job_state(Id id) const override;
  std::vector<JobStatus> jobs(Id after, std::size_t count_max) const override;
  JobStatus stop_job(Id id) override;
  JobStatus cancel_job(Id id) override;
  JobStatus wait(Id id, std::chrono::milliseconds timeout) const override;
  ObjectInfo job_model(Id id, const RoundChoice &round) const override;
  std::vector<LossSeries> losses(Id id, std::optional<std::uint32_t> round) const override;
  std::vector<LossSeries> losses_after(Id id, const LossPlace &after, std::size_t count_max,
                                       std::optional<std::uint32_t> round) const override;

  std::vector<Event> events_after(Id job, std::uint64_t sequence, std::size_t count_max) const override;
  std::uint64_t last_event(Id job) const override;
  std::shared_ptr<void> subscribe(Id job, std::function<void()> notify) const override;

  std::string failure() const override { return loop_->failure(); }
  WorkerService &worker_service() override { return *this; }
  ObjectStore &store() override { return *options_.store; }
  void stop() override;

 private:
  using RegisteredWorker = wire::StoredWorker;
  /// What a request with an idempotency key has registered.
  struct Registration {
    Id id = 0;
    std::string text;  // of the request
  };
  using Registrations = std::map<std::string, Registration>;  // by key
  static void remember(Registrations &registrations, Id id,
                       const std::optional<wire::StoredRequest> &request) {
    if (request) registrations[request->idempotency_key] = {id, request->text};
  }

  // WorkerService
  Id authenticate(std::string_view token) override;
  SessionGrant open_session(Id worker, const SessionRequest &request) override;
  void close_session(Id worker, std::uint64_t lease) override;
  void next_task(Id worker, const TaskPoll &poll, std::function<void(std::optional<Task>)> answer) override;
  ReportReceipt report(Id worker, const Report &report) override;
  HeartbeatAnswer heartbeat(Id worker, const Heartbeat &heartbeat) override;
  bool may_read(Id worker, std::string_view key) const override;
  std::uint64_t may_write(Id worker, std::string_view key) const override;
  ObjectStore &objects() override { return *options_.store; }

  JobStatus end_job(Id id, const core::JobEvent &request);
  /// Makes it a job, unless `earlier` finds the one that the same idempotency key has made.
  JobStatus take(const std::shared_ptr<std::unique_ptr<JobEntry>> &handed, NewObjects &objects,
                 const std::function<std::optional<JobStatus>()> &earlier);
  /// What `see` returns, run under mutex_, of a state that is committed; or, where the journal fails, of the
  /// state that there is.
  template <typename See>
  auto look(See see) const -> decltype(see());

  // All below run under mutex_.
  JobEntry &find_job(Id id);
  const JobEntry &find_job(Id id) const;
  std::string model_key(const JobEntry &entry, const RoundChoice &round) const;
  JobStatus status_of(const JobEntry &entry) const;
  /// Without rounds and workers: its cost does not grow with the job.
  JobStatus summary_of(const JobEntry &entry) const;
  void fill_progress(const JobEntry &entry, JobStatus &status) const;
  WorkerInfo info_of(const RegisteredWorker &worker) const;
  core::WorkerProfile profile_of(Id worker, const Session &session) const;
  void step(JobEntry &entry, const core::JobEvent &event, Batch &batch);
  void apply(JobEntry &entry, core::JobActions actions, Batch &batch);
  void step_all(const core::JobEvent &event, Batch &batch);
  void publish(JobEntry &entry, core::Notice notice, Batch &batch);
  void invite(JobEntry &entry, const core::JobInvitation &invitation, Batch &batch);
  void ask_for_evaluation(JobEntry &entry, const Invitation &invitation, Batch &batch);
  Task task_of(const JobEntry &entry, Task::Kind kind) const;
  /// False: after a restart the worker goes on with this very task, which keeps its number.
  bool give(Id worker, const JobEntry &entry, Task task, Batch &batch);
  void end_session(Id worker, Batch &batch);
  void on_time(Time now, Batch &batch);
  /// For so long no worker could be heard, nor a report taken: leases and deadlines are as much later.
  void on_held_up(Time duration, Batch &batch);
  std::optional<Time> next_wake() const;
  /// On the loop's thread, without mutex_.
  void on_journal(const std::string &reason, bool broken);
  ReportReceipt take_report(Id worker, const Report &report, Batch &batch);
  void report_if_stalled(Id worker, Session &session, Batch &batch);
  void note_progress(Id worker, Session &session, const Task &task, TaskProgress progress, Batch &batch);

  // coordinator_journal.cpp
  void keep(JobEntry &entry, Batch &batch);
  void keep_clock(JobEntry &entry, Batch &batch);
  void keep_session(Id worker, Batch &batch);
  /// Everything that has changed since the last batch.
  void keep_changes(Batch &batch);
  wire::StoredCounters counters() const;
  /// Models of rounds that need not be kept any more go, after the commit.
  void collect_models(JobEntry &entry, Batch &batch);
  /// Events and losses of a job that has not ended.
  void load_events(JobEntry &entry) const;
  /// Those of one that has ended, and whose end is committed, are read from the journal when someone asks.
  void unload_events(Id job);

  // coordinator_restore.cpp: before the loop starts.
  void restore();
  void restore_job(Id id, const wire::StoredJob &stored);
  void find_models(JobEntry &entry);
  void check_store(bool fresh, std::string &id);
  void sweep_orphans();
  /// The work that was under way is asked for again. Fills the loop's first batch.
  void resume(Batch &batch);

  // Started after a batch is committed; run on pool_, without mutex_, and come back as commands. What they
  // throw breaks the coordinator off: nobody would wait for them in vain.
  void start_partitioning(JobEntry &entry, std::uint32_t count, Batch &batch);
  void start_check(JobEntry &entry, Id worker, Batch &batch);
  void start_aggregation(JobEntry &entry, std::vector<ReportSummary> reports, Batch &batch);
  void start_clean_up(const std::string &prefix, Batch &batch);
  void clean_up(const std::string &prefix) const;
  void work_later(Batch &batch, std::function<void()> work);
  /// So often work on pool_ has been tried before, and since when.
  struct Tries {
    Time first{0};
    unsigned before = 0;
  };
  struct Division {
    Id job = 0;
    Id dataset = 0;
    std::uint32_t count = 0;
    PartitioningConfig config;
    std::uint64_t seed = 0;
    Tries tries;
  };
  /// Of one attempt at a round; its updates.
  struct UpdateWork {
    Id job = 0;
    core::RoundAttempt attempt;
    std::vector<ReportSummary> reports;
    std::shared_ptr<const std::vector<TensorSpec>> specs;
    bool reads_digests = false;  ///< By itself, instead of asking the store.
    Tries tries;
  };
  UpdateWork update_work(const JobEntry &entry, std::vector<ReportSummary> reports) const;
  void divide(const Division &division);
  /// One report's.
  void check_update(const UpdateWork &work);
  void average(const UpdateWork &work);
  ObjectInfo store_average(const UpdateWork &work);
  std::string digest_of(const UpdateWork &work, const std::string &key) const;
  /// Tries `work` again, by `perform`, where the coordinator's own disk or memory has stopped it. False: it
  /// has failed for good.
  template <typename Work>
  bool try_again(const Work &work, void (CoordinatorImpl::*perform)(const Work &), const std::string &what,
                 const std::exception &error);
  void remove_objects(std::vector<std::string> keys, Batch &batch);
  /// For work on pool_: changes the job, unless the coordinator is stopping.
  void step_later(Id job, core::JobEvent event, std::function<void(JobEntry &, Batch &)> before = {});

  // coordinator_registry.cpp: something new, whose files have been read.
  struct NewDataset {
    DatasetInfo info;
    const Examples *train = nullptr;
    const Examples *validation = nullptr;
    CancelQuery cancelled;
    std::optional<wire::StoredRequest> request;
  };
  struct NewModel {
    ModelInfo info;
    const StateDict *weights = nullptr;
    std::string weights_of;  // or: a copy of this object
    std::filesystem::path module;
    CancelQuery cancelled;
    std::optional<wire::StoredRequest> request;
  };
  DatasetInfo add(const NewDataset &dataset);
  ModelInfo add(const NewModel &model);
  /// Journals `stored` in `table`, whose objects are written, unless the same request has been faster.
  template <typename Stored, typename Info>
  Info keep(const char *table, std::uint32_t count_max, std::map<Id, Info> &infos,
            Registrations &registrations, const Stored &stored, NewObjects &objects);
  /// True when the coordinator stops, or the caller gives up.
  CancelQuery stopping_or(CancelQuery cancelled) const;
  /// What the same request has registered before. Throws Error(conflict) when another one has used its key.
  /// Under mutex_.
  template <typename Info>
  static std::optional<Info> earlier(const std::map<Id, Info> &infos, const Registrations &registrations,
                                     const std::optional<wire::StoredRequest> &request);
  /// The same, when that is committed. Not under mutex_.
  template <typename Info>
  std::optional<Info> committed_earlier(const std::map<Id, Info> &infos, const Registrations &registrations,
                                        const std::optional<wire::StoredRequest> &request);
  void log(LogLevel level, std::string_view id, std::string text, Batch &batch) const;
  void log_now(LogLevel level, std::string_view id, std::string text) const;

  const CoordinatorOptions options_;
  system::Runtime &runtime_;
  const std::shared_ptr<Journal> journal_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> broken_{false};  // the journal
  std::atomic<Id> last_worker_{0};
  std::atomic<Id> last_dataset_{0};
  std::atomic<Id> last_model_{0};
  std::atomic<Id> last_job_{0};

  mutable std::mutex mutex_;
  const std::unique_ptr<system::Signal> job_changed_;
  std::map<Id, RegisteredWorker> workers_;
  std::map<std::string, Id> worker_by_token_sha256_;
  std::map<Id, DatasetInfo> datasets_;
  std::map<Id, ModelInfo> models_;
  Registrations worker_by_key_;
  Registrations dataset_by_key_;
  Registrations model_by_key_;
  std::map<Id, std::unique_ptr<JobEntry>> jobs_;
  std::map<Id, JobEntry *> open_jobs_;  // those that have not ended: the only ones that events concern
  std::map<std::string, Id> job_by_idempotency_key_;
  Sessions sessions_;
  std::uint64_t last_task_ = 0;
  std::set<Id> unkept_jobs_;  // those that the journal does not know as they are
  std::set<Id> unkept_sessions_;
  wire::StoredCounters kept_counters_;
  std::string boot_id_;
  std::multimap<Time, std::function<void()>> retries_;  // work for pool_, by when

  // Destroyed in this order: the pool ends its work before the loop that takes its results, before the state.
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<system::ThreadPool> pool_;
};

template <typename See>
auto CoordinatorImpl::look(See see) const -> decltype(see()) {
  using Seen = decltype(see());
  if (!stopping_ && loop_->failure().empty()) {
    // What `see` throws is the caller's; what the loop throws means that it could not be asked.
    struct Outcome {
      std::optional<Seen> seen;
      std::exception_ptr thrown;
    };
    std::optional<Outcome> outcome;
    try {
      outcome = loop_->look<Outcome>([&see] {
        Outcome found;
        try {
          found.seen.emplace(see());
        } catch (...) {
          found.thrown = std::current_exception();
        }
        return found;
      });
    } catch (const Error &) {
    }
    if (outcome && outcome->thrown) std::rethrow_exception(outcome->thrown);
    if (outcome) return std::move(*outcome->seen);
  }
  const std::lock_guard lock(mutex_);
  return see();
}

}  // namespace parsyn::coordinator
