// A trainer that adds one to every element in each round, for tests of what happens around training.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "parsyn/error.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn::test {

class CountingFactory final : public TrainerFactory {
 public:
  /// Called before each step; may block or throw.
  std::function<void(const RoundTask &, std::uint64_t step, TrainMonitor &)> before_step;
  /// Called at the begin of each evaluation; may block or throw.
  std::function<void(const TrainMonitor &)> before_evaluation;
  std::function<double(std::uint64_t step)> loss = [](std::uint64_t) { return 1.0; };
  std::atomic<int> rounds_trained{0};
  std::atomic<int> trainers_made{0};

  TrainerCapabilities capabilities() const override {
    return {.model_kinds = {"custom"}, .bf16 = false, .lora = false, .device = "cpu"};
  }

  std::unique_ptr<Trainer> make_trainer(const TrainerJob &job) override {
    ++trainers_made;
    return std::make_unique<Counting>(*this, job);
  }

 private:
  class Counting final : public Trainer {
   public:
    Counting(CountingFactory &factory, const TrainerJob &job) : factory_(factory), job_(job) {}

    Evaluation evaluate(const StateDict &weights, const TrainMonitor &monitor) override {
      if (factory_.before_evaluation) factory_.before_evaluation(monitor);
      return {.loss = f32_elements(weights.at("w")).at(0),
              .accuracy = {},
              .num_examples = job_.validation->count()};
    }

    StateDict train(const StateDict &global, const RoundTask &task, TrainMonitor &monitor) override {
      for (std::uint64_t step = 1; step <= task.steps; ++step) {
        if (factory_.before_step) factory_.before_step(task, step, monitor);
        if (monitor.cancelled()) throw Error(ErrorCode::cancelled, "cancelled");
        monitor.step_done(step, factory_.loss(step), 1);
      }
      StateDict trained = global;
      std::vector<float> elements = f32_elements(global.at("w"));
      for (float &element : elements) element += 1;
      trained["w"] = make_f32_tensor(global.at("w").shape, elements);
      ++factory_.rounds_trained;
      return trained;
    }

   private:
    CountingFactory &factory_;
    TrainerJob job_;
  };
};

/// A gate that a trainer waits at and a test opens.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  /// Until somebody waits at the gate; false after ten seconds.
  bool reached() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

}  // namespace parsyn::test
