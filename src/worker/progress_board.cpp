#include "worker/progress_board.hpp"

#include <algorithm>

#include "parsyn/limits.hpp"

namespace parsyn::worker {

void ProgressBoard::begin(const Task &task) {
  const std::lock_guard lock(mutex_);
  active_ = true;
  cancelled_ = false;
  news_ = true;
  current_ = TaskProgress{};
  current_.task_id = task.task_id;
  current_.job_id = task.job_id;
  current_.round = task.round;
  current_.steps = task.kind == Task::Kind::train ? task.steps : 0;
  losses_.clear();
  told_losses_ = 0;
  loss_sum_ = 0;
  examples_ = 0;
}

void ProgressBoard::end() {
  const std::lock_guard lock(mutex_);
  active_ = false;
  current_ = TaskProgress{};
  losses_.clear();
}

void ProgressBoard::set_phase(std::string phase) {
  const std::lock_guard lock(mutex_);
  if (phase == "training" && current_.phase != phase) started_ = runtime_.now();
  current_.phase = std::move(phase);
  news_ = true;
}

void ProgressBoard::step_done(std::uint64_t step, double loss, std::uint64_t examples) {
  const std::lock_guard lock(mutex_);
  current_.step = step;
  losses_.push_back(loss);
  loss_sum_ += loss;
  examples_ += examples;
  const double seconds = std::chrono::duration<double>(runtime_.now() - started_).count();
  if (seconds > 0) current_.examples_per_second = static_cast<double>(examples_) / seconds;
  news_ = true;
}

bool ProgressBoard::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void ProgressBoard::cancel(std::uint64_t task_id) {
  const std::lock_guard lock(mutex_);
  if (active_ && current_.task_id == task_id) cancelled_ = true;
}

void ProgressBoard::cancel_any() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

std::optional<TaskProgress> ProgressBoard::take() {
  const std::lock_guard lock(mutex_);
  if (!active_) return std::nullopt;
  news_ = false;
  TaskProgress progress = current_;
  const std::size_t count = std::min<std::size_t>(losses_.size(), limits::kLossesPerHeartbeatMax);
  progress.first_loss_step = told_losses_ + 1;
  progress.losses.assign(losses_.begin(), losses_.begin() + static_cast<std::ptrdiff_t>(count));
  losses_.erase(losses_.begin(), losses_.begin() + static_cast<std::ptrdiff_t>(count));
  told_losses_ += count;
  return progress;
}

bool ProgressBoard::has_news() const {
  const std::lock_guard lock(mutex_);
  return active_ && news_;
}

bool ProgressBoard::has_losses() const {
  const std::lock_guard lock(mutex_);
  return active_ && !losses_.empty();
}

void ProgressBoard::give_back(const TaskProgress &progress) {
  const std::lock_guard lock(mutex_);
  if (!active_ || current_.task_id != progress.task_id || progress.losses.empty()) return;
  losses_.insert(losses_.begin(), progress.losses.begin(), progress.losses.end());
  told_losses_ -= progress.losses.size();
}

std::optional<double> ProgressBoard::mean_loss() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t count = told_losses_ + losses_.size();
  if (count == 0) return std::nullopt;
  return loss_sum_ / static_cast<double>(count);
}

void ProgressBoard::fill(WorkerActivity &activity) const {
  const std::lock_guard lock(mutex_);
  if (!active_) return;
  activity.phase = current_.phase;
  activity.job_id = current_.job_id;
  activity.round = current_.round;
  activity.step = current_.step;
  activity.steps = current_.steps;
  activity.examples_per_second = current_.examples_per_second;
}

}  // namespace parsyn::worker
