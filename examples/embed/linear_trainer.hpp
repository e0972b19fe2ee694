// The host's own part: a model and how it is trained, in plain C++.
//
// A training stack puts its own step and its own evaluation here; all that parsyn asks for is a Trainer.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "parsyn/trainer.hpp"

namespace embed {

/// y = w . x + b.
struct LinearModel {
  std::vector<float> w;
  std::vector<float> b;  // one element

  explicit LinearModel(const parsyn::StateDict &state)
      : w(parsyn::f32_elements(state.at("w"))), b(parsyn::f32_elements(state.at("b"))) {}
  parsyn::StateDict state() const {
    return {{"w", parsyn::make_f32_tensor({w.size()}, w)}, {"b", parsyn::make_f32_tensor({1}, b)}};
  }
  float operator()(const float *x) const {
    float y = b[0];
    for (std::size_t i = 0; i < w.size(); ++i) y += w[i] * x[i];
    return y;
  }
};

/// Stochastic gradient descent on half the squared error. One object serves one worker for one whole job.
class LinearTrainer final : public parsyn::Trainer {
 public:
  explicit LinearTrainer(const parsyn::TrainerJob &job) : job_(job) {}

  parsyn::Evaluation evaluate(const parsyn::StateDict &weights,
                              const parsyn::TrainMonitor &monitor) override {
    const LinearModel model(weights);
    const std::vector<float> x = parsyn::f32_elements(job_.validation->x);
    const std::vector<float> y = parsyn::f32_elements(job_.validation->y);
    double sum = 0;
    for (std::size_t i = 0; i < y.size() && !monitor.cancelled(); ++i)
      sum += 0.5 * std::pow(model(&x[i * model.w.size()]) - y[i], 2);
    return {.loss = sum / static_cast<double>(y.size()), .accuracy = {}, .num_examples = y.size()};
  }

  parsyn::StateDict train(const parsyn::StateDict &global, const parsyn::RoundTask &task,
                          parsyn::TrainMonitor &monitor) override {
    LinearModel model(global);
    const std::vector<float> x = parsyn::f32_elements(job_.train->x);
    const std::vector<float> y = parsyn::f32_elements(job_.train->y);
    parsyn::BatchOrder order(y.size(), job_.config.batch_size, job_.seed, job_.worker_id);
    for (std::uint64_t step = 0; step < task.steps && !monitor.cancelled(); ++step) {
      const std::uint64_t job_step = task.first_step + step;  // schedules and batches count over all rounds
      const double rate = parsyn::learning_rate_at(job_.config, job_step, job_.total_steps);
      const float scale = static_cast<float>(rate / static_cast<double>(order.batch_examples()));
      const LinearModel before = model;
      double loss = 0;
      for (const std::uint64_t i : order.batch(job_step)) {
        const float *input = &x[i * model.w.size()];
        const float error = before(input) - y[i];
        for (std::size_t j = 0; j < model.w.size(); ++j) model.w[j] -= scale * error * input[j];
        model.b[0] -= scale * error;
        loss += 0.5 * error * error;
      }
      monitor.step_done(step + 1, loss / static_cast<double>(order.batch_examples()), order.batch_examples());
    }
    return model.state();
  }

 private:
  const parsyn::TrainerJob &job_;  // outlives its trainer
};

class LinearTrainerFactory final : public parsyn::TrainerFactory {
 public:
  parsyn::TrainerCapabilities capabilities() const override {
    parsyn::TrainerCapabilities capabilities;
    capabilities.model_kinds = {"custom"};
    return capabilities;
  }
  std::unique_ptr<parsyn::Trainer> make_trainer(const parsyn::TrainerJob &job) override {
    return std::make_unique<LinearTrainer>(job);
  }
};

}  // namespace embed
