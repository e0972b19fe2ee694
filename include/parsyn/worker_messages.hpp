// What a worker and a coordinator say to each other; docs/rest.md and docs/openapi.json have the same as
// JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/status.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {

inline constexpr std::uint32_t kProtocolVersion = 1;

struct SessionRequest {
  std::uint32_t protocol_version = kProtocolVersion;
  std::string software = {};  ///< "parsyn 0.1.0"
  std::string instance = {};  ///< Random for each process: tells two processes with one token apart.
  TrainerCapabilities capabilities = {};
  std::vector<LocalDataset> local_datasets = {};
};

struct SessionGrant {
  Id worker_id = 0;
  std::string worker_name = {};
  std::uint64_t lease = 0;
  std::chrono::milliseconds heartbeat_interval{0};
  std::chrono::milliseconds lease_duration{0};
  std::chrono::milliseconds progress_interval{0};
};

/// An object that the worker may read. Transports that move objects by URL fill in `url`, which is a secret.
/// The worker keeps it under its digest: one that is not 64 lower-case hexadecimal digits is refused.
struct ObjectRef {
  std::string key = {};
  std::uint64_t bytes = 0;
  std::string sha256 = {};
  std::string url = {};
};

/// Where the worker may put its update, once.
struct UploadSlot {
  std::string key = {};
  std::uint64_t bytes_max = 0;
  std::string url = {};
};

struct Task {
  enum class Kind { train, evaluate };
  Kind kind = Kind::train;
  std::uint64_t task_id = 0;
  Id job_id = 0;
  std::string job_name = {};
  std::uint32_t round = 0;
  std::uint32_t num_rounds = 0;
  std::uint64_t steps = 0;
  std::uint64_t first_step = 0;   ///< Global steps before this round.
  std::uint64_t total_steps = 0;  ///< Of the whole job.
  std::uint64_t seed = 0;
  std::uint64_t num_examples =
      0;  ///< The weight that the report must state; in local mode the worker's own count.
  ModelDescription model = {};
  TrainingConfig config = {};
  ObjectRef global = {};
  std::optional<ObjectRef> module = {};      ///< torchscript
  std::optional<ObjectRef> train = {};       ///< The worker's partition.
  std::string local_dataset = {};            ///< Not empty: the worker's own data of this name instead.
  std::optional<ObjectRef> validation = {};  ///< The whole validation set.
  std::optional<UploadSlot> upload = {};     ///< Train only.
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
  std::string failure = {};  ///< Not empty: why the task could not be done; nothing else counts then.
  std::string key = {};      ///< Of the stored update.
  std::string sha256 = {};
  std::uint64_t bytes = 0;
  std::uint64_t num_examples = 0;
  std::optional<double> train_loss = {};    ///< Mean over the steps.
  std::optional<Evaluation> received = {};  ///< Of the weights that the task named.
  std::optional<Evaluation> own = {};       ///< Of the update.
};

struct ReportReceipt {
  bool accepted = false;  ///< True for a repeated report too.
  bool duplicate = false;
  std::string code = {};    ///< When refused: "wrong_round", "lease_expired", ...
  std::string reason = {};  ///< With what to do next.
  std::uint32_t current_round = 0;
};

struct TaskProgress {
  std::uint64_t task_id = 0;
  Id job_id = 0;
  std::uint32_t round = 0;
  std::string phase = {};  ///< "downloading", "evaluating", "training", "uploading"
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double examples_per_second = 0;
  std::uint64_t first_loss_step = 0;  ///< Step of losses[0], from 1.
  std::vector<double> losses = {};    ///< Since the last heartbeat; may hold NaN and infinities.
};

struct Heartbeat {
  std::uint64_t lease = 0;
  std::optional<TaskProgress> progress = {};
};

struct HeartbeatAnswer {
  std::vector<std::uint64_t> cancelled_tasks = {};  ///< Drop these: their round or job is over.
};

}  // namespace parsyn
