// What the training thread writes and the heartbeat thread reads: phase, step, losses, and the wish to stop.
//
// Thread-safety: every method may be called from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/transport.hpp"
#include "parsyn/worker.hpp"
#include "system/runtime.hpp"

namespace parsyn::worker {

class ProgressBoard final : public TrainMonitor {
 public:
  explicit ProgressBoard(system::Runtime &runtime) : runtime_(runtime) {}

  void begin(const Task &task);
  void end();
  void set_phase(std::string phase);
  void step_done(std::uint64_t step, double loss, std::uint64_t examples) override;
  bool cancelled() const override;

  /// The current task is to be dropped; ignored when it is another one by now.
  void cancel(std::uint64_t task_id);
  void cancel_any();

  /// What has happened since the last call, or nothing between tasks. Losses are told once.
  std::optional<TaskProgress> take();
  /// take() would tell something new.
  bool has_news() const;
  bool has_losses() const;
  /// Losses that could not be told are told again.
  void give_back(const TaskProgress &progress);
  std::optional<double> mean_loss() const;
  void fill(WorkerActivity &activity) const;

 private:
  system::Runtime &runtime_;
  mutable std::mutex mutex_;
  bool active_ = false;
  bool cancelled_ = false;
  bool news_ = false;
  TaskProgress current_;        // without losses
  std::vector<double> losses_;  // not yet told
  std::uint64_t told_losses_ = 0;
  double loss_sum_ = 0;
  std::uint64_t examples_ = 0;
  Time started_{0};
};

}  // namespace parsyn::worker
