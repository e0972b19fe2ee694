#include "sim/trainer.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "sim/watched.hpp"

namespace parsyn::sim {
namespace {

constexpr Time kEvaluation{150};

class SimulatedTrainer final : public Trainer {
 public:
  SimulatedTrainer(TrainerHabits &habits, Machine &machine, const TrainerJob &job)
      : habits_(habits), machine_(machine), job_(job) {}

  Evaluation evaluate(const StateDict &weights, const TrainMonitor &monitor) override {
    pause(machine_, kEvaluation);
    if (monitor.cancelled()) throw Error(ErrorCode::cancelled, "the task is over");
    double sum = 0;
    for (const auto &[name, tensor] : weights) {
      if (tensor.dtype != Dtype::f32) continue;
      for (const float element : f32_elements(tensor)) sum += std::abs(static_cast<double>(element));
    }
    return {.loss = sum, .accuracy = {}, .num_examples = job_.validation->count()};
  }

  StateDict train(const StateDict &global, const RoundTask &task, TrainMonitor &monitor) override {
    core::Random chance(core::derive_seed({habits_.seed, ++habits_.tasks}));
    const bool fails = !habits_.calm && chance.below(1'000) < habits_.fails_of_thousand;
    const bool spoils = !habits_.calm && chance.below(1'000) < habits_.nan_of_thousand;
    const std::uint64_t fails_at = fails ? 1 + chance.below(task.steps) : 0;
    for (std::uint64_t step = 1; step <= task.steps; ++step) {
      pause(machine_, habits_.step);
      if (monitor.cancelled()) throw Error(ErrorCode::cancelled, "the task is over");
      if (step == fails_at) throw Error(ErrorCode::internal, "this trainer fails at times");
      monitor.step_done(step, 1.0 / static_cast<double>(task.first_step + step), 1);
    }
    StateDict trained = global;
    std::uint64_t part = 0;
    for (auto &[name, tensor] : trained) {
      core::Random draw(core::derive_seed({job_.seed, job_.worker_id, task.round, ++part}));
      if (tensor.dtype == Dtype::i64) {
        std::int64_t count = 0;
        std::memcpy(&count, tensor.data.data(), sizeof count);
        count += static_cast<std::int64_t>(job_.worker_id);
        std::memcpy(tensor.data.data(), &count, sizeof count);
        continue;
      }
      std::vector<float> elements = f32_elements(tensor);
      for (float &element : elements) element += static_cast<float>(draw.unit() - 0.5);
      if (spoils) elements.back() = std::numeric_limits<float>::quiet_NaN();
      tensor = make_f32_tensor(tensor.shape, elements);
    }
    return trained;
  }

 private:
  TrainerHabits &habits_;
  Machine &machine_;
  const TrainerJob job_;
};

class SimulatedTrainers final : public TrainerFactory {
 public:
  SimulatedTrainers(TrainerHabits &habits, Machine &machine) : habits_(habits), machine_(machine) {}

  TrainerCapabilities capabilities() const override {
    return {.model_kinds = {"custom", "mlp"}, .bf16 = false, .lora = false, .device = "cpu"};
  }
  std::unique_ptr<Trainer> make_trainer(const TrainerJob &job) override {
    return std::make_unique<SimulatedTrainer>(habits_, machine_, job);
  }

 private:
  TrainerHabits &habits_;
  Machine &machine_;
};

}  // namespace

std::shared_ptr<TrainerFactory> make_trainer_factory(TrainerHabits &habits, Machine &machine) {
  return std::make_shared<SimulatedTrainers>(habits, machine);
}

}  // namespace parsyn::sim
