// Examples, jobs and a monitor for the tests of trainers.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parsyn/torch.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn::test {

inline Tensor i64_tensor(std::vector<std::uint64_t> shape, const std::vector<std::int64_t> &elements) {
  Tensor tensor{Dtype::i64, std::move(shape), {}};
  tensor.data.resize(elements.size() * sizeof(std::int64_t));
  if (!elements.empty()) std::memcpy(tensor.data.data(), elements.data(), tensor.data.size());
  return tensor;
}

inline std::vector<std::int64_t> i64_elements(const Tensor &tensor) {
  std::vector<std::int64_t> elements(tensor.data.size() / sizeof(std::int64_t));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.data.data(), tensor.data.size());
  return elements;
}

inline Examples labelled(std::vector<std::uint64_t> shape, const std::vector<float> &inputs,
                         const std::vector<std::int64_t> &labels) {
  return {make_f32_tensor(std::move(shape), inputs), i64_tensor({labels.size()}, labels)};
}

/// Inputs without a pattern in [-1, 1], labels 0 to classes - 1 in turn.
inline Examples many_labelled(std::vector<std::uint64_t> shape, std::int64_t classes) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) count *= size;
  std::vector<float> inputs;
  std::uint32_t state = 12345;
  for (std::uint64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    inputs.push_back(static_cast<float>(state >> 8) / 8388608.0F - 1.0F);
  }
  std::vector<std::int64_t> labels;
  for (std::uint64_t i = 0; i < shape[0]; ++i) labels.push_back(static_cast<std::int64_t>(i) % classes);
  return labelled(std::move(shape), inputs, labels);
}

inline TrainerJob mlp_job(std::vector<std::uint64_t> sizes, const Examples *train,
                          const Examples *validation = nullptr) {
  TrainerJob job;
  job.job_id = 1;
  job.worker_id = 1;
  job.seed = 7;
  job.model.kind = "mlp";
  job.model.sizes = std::move(sizes);
  job.config.batch_size = 1000;
  job.config.learning_rate = 0.1;
  job.total_steps = 100;
  job.train = train;
  job.validation = validation;
  return job;
}

inline TrainerJob scripted_job(const std::filesystem::path &module, const Examples *train,
                               const Examples *validation = nullptr) {
  TrainerJob job = mlp_job({}, train, validation);
  job.model.kind = "torchscript";
  job.module_path = module.string();
  return job;
}

class RecordingMonitor : public TrainMonitor {
 public:
  void step_done(std::uint64_t step, double loss, std::uint64_t examples) override {
    steps.push_back(step);
    losses.push_back(loss);
    batch_examples.push_back(examples);
    if (on_step) on_step();
  }
  bool cancelled() const override { return steps.size() >= steps_until_cancelled; }

  std::vector<std::uint64_t> steps;
  std::vector<double> losses;
  std::vector<std::uint64_t> batch_examples;
  std::uint64_t steps_until_cancelled = UINT64_MAX;
  std::function<void()> on_step;
};

inline std::unique_ptr<Trainer> trainer_for(const TrainerJob &job) {
  return make_torch_trainer_factory({})->make_trainer(job);
}

/// One round from `weights`.
inline StateDict trained(const TrainerJob &job, const StateDict &weights, std::uint64_t steps,
                         std::uint32_t round = 1) {
  RecordingMonitor monitor;
  return trainer_for(job)->train(weights, {round, steps, (round - 1) * steps}, monitor);
}

/// The message of the Error that `call` throws; its code goes to `code`.
inline std::string error_of(const std::function<void()> &call, ErrorCode &code) {
  try {
    call();
  } catch (const Error &error) {
    code = error.code();
    return error.message();
  }
  code = ErrorCode::ok;
  return {};
}

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

}  // namespace parsyn::test
