// What a training job is asked to do: the body of POST /api/v1/training-jobs as C++ values (docs/jobs.md has
// every field with its default).
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/error.hpp"

namespace parsyn {

/// Of workers, jobs, datasets and models. Workers of both kinds share one sequence.
using Id = std::uint64_t;

enum class Optimizer { sgd, adamw };
enum class LearningRateSchedule {
  constant,
  linear,
  cosine
};  ///< After warm-up; over all global steps of the job.
enum class MixedPrecision { no, bf16 };

/// Stops the job when the best global validation loss has not improved by `min_delta` for `patience` rounds.
struct EarlyStopping {
  std::uint32_t patience = 5;
  double min_delta = 0.0;
  bool operator==(const EarlyStopping &) const = default;
};

/// `config`: how a worker trains.
struct TrainingConfig {
  std::uint32_t epochs = 1;  ///< Used by jobs that are not distributed only.
  std::uint32_t batch_size = 32;
  double learning_rate = 0.01;
  Optimizer optimizer = Optimizer::sgd;
  double momentum = 0.0;  ///< SGD only. The optimiser's state starts anew each round.
  double weight_decay = 0.0;
  std::uint64_t warmup_steps = 0;  ///< In global steps: (round - 1) * steps_per_round + step.
  LearningRateSchedule lr_schedule = LearningRateSchedule::constant;
  double max_grad_norm = 0.0;  ///< Clips the gradient's global 2-norm; 0: no clipping.
  MixedPrecision mixed_precision = MixedPrecision::no;
  bool use_peft = false;
  std::uint32_t lora_r = 16;
  double lora_alpha = 32.0;
  std::uint32_t threads = 1;  ///< Of one worker's computation; another number gives other last bits.
  std::optional<EarlyStopping> early_stopping = {};
  bool operator==(const TrainingConfig &) const = default;
};

/// How the training examples are divided (partitioner.hpp).
struct PartitioningConfig {
  std::string kind = "even";            ///< "even", "dirichlet", "shards".
  double alpha = 0.5;                   ///< dirichlet
  std::uint32_t shards_per_worker = 2;  ///< shards
  bool operator==(const PartitioningConfig &) const = default;
};

/// `distributed`
struct DistributedConfig {
  bool enabled = true;
  std::string strategy = "federated_averaging";
  std::uint32_t num_rounds = 10;
  std::uint32_t steps_per_round = 500;
  std::uint32_t min_workers = 2;
  std::uint32_t max_workers = 5;
  std::uint32_t aggregation_timeout = 600;  ///< Seconds, from the moment a round opens.
  std::uint32_t fault_tolerance = 1;  ///< The job fails with this many failed rounds in a row; 0 is as 1.
  PartitioningConfig partitioning = {};
  bool operator==(const DistributedConfig &) const = default;
};

enum class SelectionMode { automatic, own, parsyn, mixed };  ///< "auto", "own", "parsyn", "mixed"

/// `worker_selection`
struct WorkerSelection {
  SelectionMode mode = SelectionMode::automatic;
  std::vector<Id> worker_ids = {};         ///< Of kind own.
  std::vector<Id> parsyn_worker_ids = {};  ///< Of kind parsyn.
  bool operator==(const WorkerSelection &) const = default;
};

struct JobConfig {
  std::string name = {};
  Id dataset_id = 0;
  Id model_id = 0;
  TrainingConfig config = {};
  std::optional<DistributedConfig> distributed = {};  ///< Absent: not distributed.
  WorkerSelection worker_selection = {};
  /// Absent: drawn when the job is created, and recorded. 0 is a seed like any other.
  std::optional<std::uint64_t> seed = {};
  bool operator==(const JobConfig &) const = default;

  bool is_distributed() const { return distributed && distributed->enabled; }
};

std::string_view optimizer_name(Optimizer value);
std::string_view lr_schedule_name(LearningRateSchedule value);
std::string_view mixed_precision_name(MixedPrecision value);
std::string_view selection_mode_name(SelectionMode value);

/// All faults of the values by themselves: ranges, contradictions (min > max), unknown names. Pure.
std::vector<Fault> check_job_config(const JobConfig &config);

}  // namespace parsyn
