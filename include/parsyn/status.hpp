// What a coordinator tells about its workers, datasets, models and jobs: the documents of the REST API as C++
// values.
//
// Thread-safety: values. Times are wall-clock milliseconds since 1970 (UTC), for people; nothing is decided
// by them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parsyn/dataset.hpp"
#include "parsyn/job_config.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {

enum class WorkerKind { own, parsyn };
std::string_view worker_kind_name(WorkerKind kind);

struct LocalDataset {
  std::string name = {};
  std::uint64_t num_examples = 0;
};

struct WorkerInfo {
  Id id = 0;
  std::string name;
  WorkerKind kind = WorkerKind::own;
  bool live = false;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> seen_ms;              ///< Last heartbeat.
  std::optional<TrainerCapabilities> capabilities;  ///< Of its newest session.
  std::vector<LocalDataset> local_datasets;
};

struct DatasetInfo {
  Id id = 0;
  std::string name;
  bool local = false;  ///< The examples stay with the workers.
  std::int64_t created_ms = 0;
  std::optional<DatasetShape> train;       ///< Absent when local.
  std::optional<DatasetShape> validation;  ///< Absent: nothing is evaluated.
};

struct ModelInfo {
  Id id = 0;
  std::string name;
  std::int64_t created_ms = 0;
  ModelDescription description;
  std::uint64_t num_parameters = 0;  ///< Elements of all tensors.
  std::string weights_key;           ///< The initial weights; empty: drawn from the job's seed (mlp).
  std::string weights_sha256;
};

enum class JobState { waiting, running, evaluating, completed, failed, stopped, cancelled };
std::string_view job_state_name(JobState state);
/// completed, failed, stopped, cancelled: never changes again.
bool is_terminal(JobState state);

/// One worker's part in the current round.
struct WorkerProgress {
  Id worker_id = 0;
  std::string name;
  bool live = false;
  std::string
      state;  ///< A ParticipantState's name, or "standby", "away", or "not_eligible" (with the reason).
  std::string reason;
  std::string phase;  ///< "downloading", "evaluating", "training", "uploading"; empty between tasks.
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double examples_per_second = 0;
  bool stalled = false;  ///< It is live and has a task, of which neither phase nor step has changed for
                         ///< CoordinatorOptions::stall_timeout.
  std::optional<double> last_loss;
  std::optional<std::uint32_t> partition;  ///< Constant within a job where workers are selected by id.
  std::uint64_t num_examples = 0;
};

/// One worker's update in a finished round.
struct Contribution {
  Id worker_id = 0;
  std::uint64_t num_examples = 0;
  std::string state;  ///< A ParticipantState's name.
  std::string reason;
  std::optional<double> train_loss;  ///< Mean over the round's steps.
  std::optional<Evaluation>
      received;                   ///< Of the weights that it received: the global model of the round before.
  std::optional<Evaluation> own;  ///< Of its own weights, after training.
};

struct RoundRecord {
  std::uint32_t round = 0;
  std::uint32_t failed_attempts = 0;  ///< Before the one that succeeded, or so far.
  bool succeeded = false;
  std::string reason;  ///< Why it closed, or failed.
  double seconds = 0;
  std::uint64_t examples = 0;            ///< Of the updates that count.
  std::uint64_t examples_total = 0;      ///< Of all partitions: the difference was not covered in this round.
  std::optional<double> train_loss;      ///< Mean of the workers' train_loss, weighted by examples.
  std::optional<Evaluation> validation;  ///< Of the round's new global model; known when the next round ends.
  std::string model_key;
  std::string model_sha256;
  std::uint64_t model_bytes = 0;
  std::vector<Contribution> contributions;  ///< In worker-id order.
};

struct JobStatus {
  Id id = 0;
  JobConfig config;  ///< With the seed that was used.
  JobState state = JobState::waiting;
  std::string reason;       ///< Why it is in this state, in a sentence.
  bool stopping = false;    ///< Ends after the current round.
  std::uint32_t round = 0;  ///< The one in progress, or the last one; 0 before the first.
  std::uint32_t num_rounds = 0;
  std::uint32_t failed_rounds_in_a_row = 0;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> started_ms;
  std::optional<std::int64_t> ended_ms;
  std::optional<double> deadline_seconds;  ///< Until the round's deadline.
  std::vector<std::string>
      notices;  ///< Small data, one worker with most of it, the advice to stop, what was not used.
  std::string partitioner;                  ///< Name and version, e.g. "even/1".
  std::optional<Evaluation> initial;        ///< Of the weights before round 1.
  std::optional<std::uint32_t> best_round;  ///< By validation loss.
  std::optional<Evaluation> final_validation;
  std::vector<RoundRecord> rounds;
  std::vector<WorkerProgress> workers;  ///< In worker-id order.
};

/// One entry of a job's ordered stream. `sequence` counts from 1: without a gap while the coordinator runs
/// and nothing is dropped (limits::kEventsPerJobMax), higher after a restart.
using EventValue = std::variant<std::int64_t, double, std::string>;
struct Event {
  std::uint64_t sequence = 0;
  Id job_id = 0;
  std::int64_t time_ms = 0;
  std::string type;  ///< "job_created", "round_opened", "worker_progress", ... (docs/events.md).
  std::string text;  ///< One sentence for people.
  std::vector<std::pair<std::string, EventValue>> fields;
};

/// Losses of one worker in one round, by step; thinned evenly beyond limits::kLossesPerWorkerRoundMax.
struct LossSeries {
  Id worker_id = 0;
  std::uint32_t round = 0;
  std::vector<std::pair<std::uint64_t, double>> losses;  ///< (step within the round, from 1; loss)
};

}  // namespace parsyn
