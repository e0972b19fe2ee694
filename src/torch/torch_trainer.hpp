// The training loop, the same for every kind of model.
//
// Each round starts a new optimiser: momentum and AdamW's moments are not kept, since they belong to weights
// that the aggregation replaced. The learning rate goes by global steps. The same job, round and weights give
// the same bytes on one machine with one number of threads. Evaluation is always in F32.
#pragma once

#include <memory>

#include "parsyn/log.hpp"
#include "parsyn/trainer.hpp"
#include "torch/device_examples.hpp"
#include "torch/loss.hpp"
#include "torch/model.hpp"
#include "torch/process_settings.hpp"

namespace parsyn::torch {

struct TrainerParts {
  TrainerJob job;
  std::unique_ptr<Model> model;
  at::Device device = at::Device(at::kCPU);
  LogSink log;
};

class TorchTrainer : public Trainer {
 public:
  /// Passes two training examples through the model, so that what does not fit is refused here, before any
  /// round. Throws Error: invalid_argument.
  explicit TorchTrainer(TrainerParts parts);

  Evaluation evaluate(const StateDict &weights, const TrainMonitor &monitor) override;
  StateDict train(const StateDict &global, const RoundTask &task, TrainMonitor &monitor) override;

 private:
  void check_batches(std::uint64_t num_examples) const;
  void check_fit(const Examples &examples, std::string_view role, bool training);
  void run_steps(const RoundTask &task, TrainMonitor &monitor);
  ComputeSettings compute_settings() const;
  std::uint64_t random_seed(std::uint32_t round) const;

  TrainerJob job_;
  std::unique_ptr<Model> model_;
  at::Device device_;
  LogSink log_;
  Loss loss_;
  std::unique_ptr<DeviceExamples> train_;
  std::unique_ptr<DeviceExamples> validation_;
};

}  // namespace parsyn::torch
