// The coordinator: keeps workers, datasets, models and jobs, and runs the rounds.
//
//   auto coordinator = parsyn::make_coordinator({.store = parsyn::make_memory_store()});
//   auto worker = coordinator->add_worker({.name = "a"});
//   auto job = coordinator->submit(config);
//   coordinator->wait(job.id, std::chrono::hours(1));
//
// It runs its own threads and no model. Rounds follow docs/rounds.md; parsyn::http serves it over the
// network.
//
// Thread-safety: every method may be called from any thread. Callbacks run with no lock held and may call the
// coordinator. No global state: several coordinators in one process are independent.
// Lifetime: stop() and destruction return within limits::kStopBound, with requests in flight, beside the one
// call of the store or the journal that each thread is in (flushing a large object takes its time);
// afterwards every call that would change something throws Error(cancelled). A stopped coordinator leaves its
// jobs as they are. Callbacks may still run until it is destroyed; destroy it from none of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parsyn/coordinator_options.hpp"
#include "parsyn/dataset.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/status.hpp"
#include "parsyn/transport.hpp"

namespace parsyn {

struct WorkerSpec {
  std::string name = {};
  WorkerKind kind = WorkerKind::own;
};
struct WorkerCredentials {
  WorkerInfo worker;
  std::string token;  ///< Told this once; only its hash is kept.
};

struct DatasetSpec {
  std::string name = {};
  bool local = false;
  std::optional<DatasetFileOptions> train = {};  ///< Required unless local.
  std::optional<DatasetFileOptions> validation = {};
  double validation_fraction = 0;  ///< Of train, when there is no validation file; 0: nothing is evaluated.
  std::uint64_t split_seed = 0;
  CancelQuery cancelled = {};  ///< While files are read and stored. Then nothing is registered.
};

/// "ROUND" or the best by validation loss; nothing: the last.
struct BestRound {};
using RoundChoice = std::variant<std::monostate, std::uint32_t, BestRound>;

struct ModelSpec {
  std::string name = {};
  ModelDescription description = {};  ///< `module_key` is set by the coordinator.
  std::filesystem::path path = {};    ///< torchscript: the module; custom: initial weights (safetensors).
  std::optional<Id> from_job = {};    ///< Start from this job's result; the description is that job's.
  RoundChoice from_round = {};
  CancelQuery cancelled = {};  ///< While files are read and stored. Then nothing is registered.
};

/// A series of losses: of all of them, ordered by round and worker, the one that a page begins behind.
struct LossPlace {
  std::uint32_t round = 0;
  Id worker_id = 0;
};

class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // Registry. Names need not be unique; ids are. All throw Error(invalid_argument) with every fault at once.
  // What is added with the same non-empty idempotency key and the same spec is added once, and the same is
  // returned; with another spec, Error(conflict).
  /// Error(conflict) for a repeat, too: the worker's token has been told, and is not known any more.
  virtual WorkerCredentials add_worker(const WorkerSpec &spec, const std::string &idempotency_key = {}) = 0;
  /// Revokes its token and ends its lease. Throws Error(not_found).
  virtual void remove_worker(Id id) = 0;
  virtual std::vector<WorkerInfo> workers() const = 0;
  virtual WorkerInfo worker(Id id) const = 0;
  virtual DatasetInfo add_dataset(const DatasetSpec &spec, const std::string &idempotency_key = {}) = 0;
  virtual DatasetInfo add_dataset(const std::string &name, const Examples &train,
                                  const std::optional<Examples> &validation) = 0;
  virtual std::vector<DatasetInfo> datasets() const = 0;
  virtual DatasetInfo dataset(Id id) const = 0;
  /// F16 and BF16 weights are widened to F32, wherever they come from.
  virtual ModelInfo add_model(const ModelSpec &spec, const std::string &idempotency_key = {}) = 0;
  /// With these initial weights; for kind "custom".
  virtual ModelInfo add_model(const ModelSpec &spec, const StateDict &weights) = 0;
  virtual std::vector<ModelInfo> models() const = 0;
  virtual ModelInfo model(Id id) const = 0;

  // Jobs.
  /// Everything that is wrong with `config` here and now: its values, unknown ids, data and model that do not
  /// fit, what a selected, live worker cannot do. Empty: submit would take it.
  virtual std::vector<Fault> check(const JobConfig &config) const = 0;
  /// Of that, what check_job_config does not see. `unread`: fields of a document that could not be read, so
  /// that `config` has a default there; what would compare one of them is not told.
  virtual std::vector<Fault> check_registry(const JobConfig &config,
                                            const std::vector<std::string> &unread = {}) const = 0;
  /// The same non-empty key with the same config gives the same job; with another one, Error(conflict).
  virtual JobStatus submit(const JobConfig &config, const std::string &idempotency_key = {}) = 0;
  virtual JobStatus job(Id id) const = 0;
  virtual JobState job_state(Id id) const = 0;
  /// Jobs with a greater id, in id order, at most `count_max`; without their rounds and workers, which job()
  /// has.
  virtual std::vector<JobStatus> jobs(Id after = 0, std::size_t count_max = SIZE_MAX) const = 0;
  /// Ends the job after the current round and keeps the last global model. Throws Error(conflict) when it has
  /// ended.
  virtual JobStatus stop_job(Id id) = 0;
  /// Ends the job at once. Throws Error(conflict) when it has ended.
  virtual JobStatus cancel_job(Id id) = 0;
  /// Returns when the job has ended or the time is over, whichever is first. Throws Error(unavailable) when
  /// failure() is for good, as the job cannot go on.
  virtual JobStatus wait(Id id, std::chrono::milliseconds timeout) const = 0;
  /// The global model after a round, as an object of store(). Round 0 is the initial model. Throws
  /// Error(not_found) for a round that has none, or whose model is not kept any more (keep_rounds).
  virtual ObjectInfo job_model(Id id, const RoundChoice &round = {}) const = 0;
  /// All, or of one round. Of a job that has ended: what the journal keeps, at most
  /// limits::kLossesKeptPerWorkerRound points of each report that was accepted.
  virtual std::vector<LossSeries> losses(Id id, std::optional<std::uint32_t> round = {}) const = 0;
  /// The same in pages: of at most `count_max` series, that end early with limits::kLossesPerPage points. An
  /// empty one: there are no more.
  virtual std::vector<LossSeries> losses_after(Id id, const LossPlace &after, std::size_t count_max,
                                               std::optional<std::uint32_t> round = {}) const = 0;

  // Events of a job.
  /// Those with a greater sequence, oldest first, at most `count_max`. `worker_progress` goes when the job
  /// ends.
  virtual std::vector<Event> events_after(Id job, std::uint64_t sequence, std::size_t count_max) const = 0;
  /// The sequence of the newest event; 0: there is none.
  virtual std::uint64_t last_event(Id job) const = 0;
  /// Calls `notify` whenever the job has new events, until the returned handle is destroyed (which waits for
  /// a running call). `notify` must be quick.
  virtual std::shared_ptr<void> subscribe(Id job, std::function<void()> notify) const = 0;

  /// Why nothing can be changed now: the journal cannot be written, or an exception that nobody expects (no
  /// memory, a host's object) has left a change half made, which a restart repairs. Empty: all is well. Reads
  /// go on, and may show what a restart would not know.
  virtual std::string failure() const = 0;

  virtual WorkerService &worker_service() = 0;
  virtual ObjectStore &store() = 0;
  virtual void stop() = 0;
};

/// Throws Error(invalid_argument) for options that contradict each other.
std::unique_ptr<Coordinator> make_coordinator(const CoordinatorOptions &options);

}  // namespace parsyn
