// How a worker reaches a coordinator: the messages, the worker's side (Transport), the coordinator's
// (WorkerService).
//
// A host with a transport of its own implements Transport on the worker's side, and hands what arrives to the
// Coordinator's WorkerService on the other. parsyn brings two: in-process, and HTTP(S) (http.hpp).
//
// A worker opens a session and gets a lease, which each heartbeat renews. It asks for a task, performs it and
// reports. A session of another process (`instance`) with the same token supersedes the older one: the older
// one's calls throw Error(conflict) with a fault whose code is "lease_superseded", and the older process
// stops; "lease_expired" means: open a session again. The same process that asks again has the same session.
//
// Thread-safety: both interfaces may be called from any thread, several calls at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/object_store.hpp"
#include "parsyn/status.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {

inline constexpr std::uint32_t kProtocolVersion = 1;

struct SessionRequest {
  std::uint32_t protocol_version = kProtocolVersion;
  std::string software;  ///< "parsyn 0.1.0"
  std::string instance;  ///< Random for each process: tells two processes with one token apart.
  TrainerCapabilities capabilities;
  std::vector<LocalDataset> local_datasets;
};

struct SessionGrant {
  Id worker_id = 0;
  std::string worker_name;
  std::uint64_t lease = 0;
  std::chrono::milliseconds heartbeat_interval{0};
  std::chrono::milliseconds lease_duration{0};
  std::chrono::milliseconds progress_interval{0};
};

/// An object that the worker may read. Transports that move objects by URL fill in `url`, which is a secret.
/// The worker keeps it under its digest: one that is not 64 lower-case hexadecimal digits is refused.
struct ObjectRef {
  std::string key;
  std::uint64_t bytes = 0;
  std::string sha256;
  std::string url;
};

/// Where the worker may put its update, once.
struct UploadSlot {
  std::string key;
  std::uint64_t bytes_max = 0;
  std::string url;
};

struct Task {
  enum class Kind { train, evaluate };
  Kind kind = Kind::train;
  std::uint64_t task_id = 0;
  Id job_id = 0;
  std::string job_name;
  std::uint32_t round = 0;
  std::uint32_t num_rounds = 0;
  std::uint64_t steps = 0;
  std::uint64_t first_step = 0;   ///< Global steps before this round.
  std::uint64_t total_steps = 0;  ///< Of the whole job.
  std::uint64_t seed = 0;
  std::uint64_t num_examples =
      0;  ///< The weight that the report must state; in local mode the worker's own count.
  ModelDescription model;
  TrainingConfig config;
  ObjectRef global;
  std::optional<ObjectRef> module;      ///< torchscript
  std::optional<ObjectRef> train;       ///< The worker's partition.
  std::string local_dataset;            ///< Not empty: the worker's own data of this name instead.
  std::optional<ObjectRef> validation;  ///< The whole validation set.
  std::optional<UploadSlot> upload;     ///< Train only.
};

struct TaskPoll {
  std::uint64_t lease = 0;
  std::chrono::milliseconds wait{0};  ///< How long the answer may be held back; bounded by limits::kLongPoll.
};

/// The end of a task: trained, evaluated, or failed.
struct Report {
  std::uint64_t lease = 0;
  std::uint64_t task_id = 0;
  Id job_id = 0;
  std::uint32_t round = 0;
  std::string failure;  ///< Not empty: why the task could not be done; nothing else counts then.
  std::string key;      ///< Of the stored update.
  std::string sha256;
  std::uint64_t bytes = 0;
  std::uint64_t num_examples = 0;
  std::optional<double> train_loss;    ///< Mean over the steps.
  std::optional<Evaluation> received;  ///< Of the weights that the task named.
  std::optional<Evaluation> own;       ///< Of the update.
};

struct ReportReceipt {
  bool accepted = false;  ///< True for a repeated report too.
  bool duplicate = false;
  std::string code;    ///< When refused: "wrong_round", "lease_expired", ...
  std::string reason;  ///< With what to do next.
  std::uint32_t current_round = 0;
};

struct TaskProgress {
  std::uint64_t task_id = 0;
  Id job_id = 0;
  std::uint32_t round = 0;
  std::string phase;  ///< "downloading", "evaluating", "training", "uploading"
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double examples_per_second = 0;
  std::uint64_t first_loss_step = 0;  ///< Step of losses[0], from 1.
  std::vector<double> losses;         ///< Since the last heartbeat; may hold NaN and infinities.
};

struct Heartbeat {
  std::uint64_t lease = 0;
  std::optional<TaskProgress> progress;
};

struct HeartbeatAnswer {
  std::vector<std::uint64_t> cancelled_tasks;  ///< Drop these: their round or job is over.
};

/// The coordinator's side. Each call names the worker that the transport has authenticated.
class WorkerService {
 public:
  virtual ~WorkerService() = default;

  /// Throws Error(unauthorized) for an unknown or revoked token.
  virtual Id authenticate(std::string_view token) = 0;
  virtual SessionGrant open_session(Id worker, const SessionRequest &request) = 0;
  /// Ends the lease at once: a clean goodbye.
  virtual void close_session(Id worker, std::uint64_t lease) = 0;
  /// Calls `answer` once, from any thread, with a task or, when the wait is over, without.
  virtual void next_task(Id worker, const TaskPoll &poll,
                         std::function<void(std::optional<Task>)> answer) = 0;
  virtual ReportReceipt report(Id worker, const Report &report) = 0;
  virtual HeartbeatAnswer heartbeat(Id worker, const Heartbeat &heartbeat) = 0;
  /// Whether this worker may read, or write, this object now: its own partition, the current weights, its own
  /// slot.
  virtual bool may_read(Id worker, std::string_view key) const = 0;
  /// The bytes that it may write; 0: none.
  virtual std::uint64_t may_write(Id worker, std::string_view key) const = 0;
  virtual ObjectStore &objects() = 0;
};

/// Called with bytes so far and in all; returning false ends the transfer with Error(cancelled).
using TransferProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// The worker's side. Calls block; each throws Error: unavailable and timeout (try again, after
/// Error::retry_after() where the peer has said it), unauthorized, conflict (see above), protocol (another
/// version), cancelled (after interrupt).
class Transport {
 public:
  virtual ~Transport() = default;

  virtual SessionGrant open_session(const SessionRequest &request) = 0;
  virtual void close_session(std::uint64_t lease) = 0;
  virtual std::optional<Task> next_task(const TaskPoll &poll) = 0;
  virtual ReportReceipt report(const Report &report) = 0;
  virtual HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) = 0;
  /// Makes `file` hold exactly the object, checked by length and SHA-256; what an earlier, broken call left
  /// under the same name is gone on with. Throws also: corrupt_data (the digest differs), not_found,
  /// forbidden, io.
  virtual void download(const ObjectRef &object, const std::filesystem::path &file,
                        const TransferProgress &progress) = 0;
  /// Puts `file` into the slot. Throws also: forbidden (the slot is gone: the round is over), too_large, io,
  /// corrupt_data (something else than the file has arrived).
  virtual void upload(const UploadSlot &slot, const std::filesystem::path &file,
                      const TransferProgress &progress) = 0;
  /// Every running and later call but close_session throws Error(cancelled). May be called from any thread,
  /// repeatedly.
  virtual void interrupt() = 0;
};

/// Calls `service` directly. It must outlive the transport.
std::unique_ptr<Transport> make_in_process_transport(WorkerService &service, std::string token);

}  // namespace parsyn
