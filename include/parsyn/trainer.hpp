// What a host implements to train: parsyn moves weights, the Trainer computes.
//
// A worker makes one Trainer per job and calls it from one thread at a time: open once, then for each round
// evaluate (the weights that it received), train, evaluate (its own). A Trainer that cannot go on throws; the
// worker answers "failed" with the exception's sentence, and goes on with the next task.
//
// Thread-safety: a TrainerFactory may be called from several workers' threads at once; a Trainer from one at
// a time. Lifetime: everything passed by reference lives for the call only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/dataset.hpp"
#include "parsyn/job_config.hpp"
#include "parsyn/state_dict.hpp"

namespace parsyn {

/// The model of a job, as registered. `kind` decides which other fields mean something.
struct ModelDescription {
  std::string kind = {};                  ///< "mlp", "torchscript", or "custom": a host's own.
  std::vector<std::uint64_t> sizes = {};  ///< mlp: layer widths, input first: [784, 200, 200, 10].
  std::string activation = "relu";        ///< mlp: "relu", "tanh", "gelu", "sigmoid".
  std::string loss = "cross_entropy";     ///< "cross_entropy" (class labels) or "mse".
  std::string module_key = {};            ///< torchscript: the object that holds the scripted module.
  std::string module_sha256 = {};

  bool operator==(const ModelDescription &) const = default;
};

/// What a worker can do; told when its session opens. A job that asks for more does not invite it.
struct TrainerCapabilities {
  std::vector<std::string> model_kinds = {};
  bool bf16 = false;
  bool lora = false;
  std::string device = "cpu";
};

/// Everything that is fixed for a worker's part in a job.
struct TrainerJob {
  Id job_id = 0;
  Id worker_id = 0;
  std::uint64_t seed = 0;  ///< The job's.
  ModelDescription model = {};
  std::string module_path = {};  ///< torchscript: the scripted module, as a local file.
  TrainingConfig config = {};
  std::uint64_t total_steps = 0;         ///< Global steps of the whole job: what the schedule runs over.
  const Examples *train = nullptr;       ///< Null for an evaluation-only task.
  const Examples *validation = nullptr;  ///< Null: there is none, and nothing is evaluated.
};

struct Evaluation {
  double loss = 0;                      ///< Mean over the examples; may be NaN or infinite.
  std::optional<double> accuracy = {};  ///< Share of right classes; only for class labels.
  std::uint64_t num_examples = 0;

  bool operator==(const Evaluation &) const = default;
};

struct RoundTask {
  std::uint32_t round = 0;       ///< From 1.
  std::uint64_t steps = 0;       ///< To train in this round.
  std::uint64_t first_step = 0;  ///< Global steps before this round: (round - 1) * steps.
};

/// Given to train(): report each step, and stop early when told to; and to evaluate(), for the latter.
class TrainMonitor {
 public:
  virtual ~TrainMonitor() = default;
  /// After each step of train(), from 1 to RoundTask::steps, with its loss and its number of examples.
  virtual void step_done(std::uint64_t step, double loss, std::uint64_t examples) = 0;
  /// True when the round is over for this worker: throw Error(cancelled), or return early; the result is
  /// dropped. Ask at each step, and at each batch of an evaluation: Worker::stop() waits until the Trainer
  /// has asked. It costs as much as a lock that nobody else holds.
  virtual bool cancelled() const = 0;
};

class Trainer {
 public:
  virtual ~Trainer() = default;
  /// Loss and accuracy of `weights` on the whole validation set.
  virtual Evaluation evaluate(const StateDict &weights, const TrainMonitor &monitor) = 0;
  /// Trains from `global` and returns the new weights: exactly the same names, shapes and dtypes.
  virtual StateDict train(const StateDict &global, const RoundTask &task, TrainMonitor &monitor) = 0;
};

class TrainerFactory {
 public:
  virtual ~TrainerFactory() = default;
  virtual TrainerCapabilities capabilities() const = 0;
  /// `job`, its examples included, outlives the Trainer. Throws Error: unsupported, invalid_argument (model
  /// and data do not fit).
  virtual std::unique_ptr<Trainer> make_trainer(const TrainerJob &job) = 0;
};

/// The examples of one step, the same for every trainer: positions of batch `step` (from 0, counted over the
/// whole job) in a stream of epochs, each a fresh seeded permutation of the partition. Batches have
/// min(batch_size, num_examples) examples; one that crosses the end of an epoch goes on in the next, so no
/// example is dropped and no batch is short. Depends on (seed, worker, step) only, so a round can be
/// repeated, by a restarted worker too.
class BatchOrder {
 public:
  BatchOrder(std::uint64_t num_examples, std::uint32_t batch_size, std::uint64_t seed, Id worker_id);
  /// Valid until the next call.
  const std::vector<std::uint64_t> &batch(std::uint64_t step);
  std::uint64_t batch_examples() const { return batch_examples_; }

 private:
  const std::vector<std::uint64_t> &epoch(std::uint64_t number);

  std::uint64_t num_examples_;
  std::uint64_t batch_examples_;
  std::uint64_t seed_;
  Id worker_id_;
  std::uint64_t epoch_number_;
  std::vector<std::uint64_t> epoch_order_;
  std::vector<std::uint64_t> batch_;
};

/// The learning rate of a global step (from 0): linear warm-up to `learning_rate`, then the schedule to 0 at
/// the end.
double learning_rate_at(const TrainingConfig &config, std::uint64_t step, std::uint64_t total_steps);

/// Initial weights of a model that has a documented initialisation: mlp, uniform(-1/sqrt(fan_in),
/// 1/sqrt(fan_in)), F32, names "layers.I.weight" [out, in] and "layers.I.bias" [out]. Throws
/// Error(invalid_argument) for another kind.
StateDict initial_weights(const ModelDescription &model, std::uint64_t seed);

}  // namespace parsyn
