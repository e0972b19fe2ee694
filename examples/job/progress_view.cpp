#include "job/progress_view.hpp"

#include <algorithm>

#include "common/plain_text.hpp"

namespace parsyn::programs {
namespace {

constexpr std::size_t kBarCharacters = 20;
constexpr std::size_t kNameCharactersMax = 24;

/// An update has been sent: the bar is full, whatever the last heartbeat said.
bool has_finished(const WorkerView &worker) {
  return worker.state == "reported" || worker.state == "valid" || worker.state == "empty";
}

std::string what_it_does(const WorkerView &worker) {
  if (worker.state != "training") return has_finished(worker) ? "reported" : worker.state;
  return worker.phase.empty() ? "starting" : worker.phase;
}

std::string bar(const WorkerView &worker) {
  std::size_t filled = 0;
  if (has_finished(worker)) {
    filled = kBarCharacters;
  } else if (worker.steps > 0) {
    filled = static_cast<std::size_t>(std::min(worker.step, worker.steps) * kBarCharacters / worker.steps);
  }
  std::string text = "[";
  text.append(filled, '=');
  if (filled < kBarCharacters) text += worker.step > 0 ? '>' : ' ';
  return padded(text, kBarCharacters + 1) + "]";
}

std::string accuracy_of(const Json &evaluation) {
  return value_at(evaluation, "accuracy").is_null() ? "" : "accuracy=" + number_at(evaluation, "accuracy", 4);
}

}  // namespace

bool is_over(const Json &job) {
  const std::string state = text_at(job, "state");
  return state == "completed" || state == "failed" || state == "stopped" || state == "cancelled";
}

std::string of_rounds(std::uint64_t round, std::uint64_t num_rounds) {
  return "round " + std::to_string(round) + "/" + std::to_string(num_rounds);
}

void JobView::take_document(const Json &job) {
  num_rounds_ = whole_at(job, "num_rounds");
  round_ = whole_at(job, "round");
  workers_.clear();
  if (is_over(job)) return;
  for (const Json &entry : value_at(job, "workers")) {
    WorkerView &worker = workers_[whole_at(entry, "worker_id")];
    worker.name = text_at(entry, "name");
    worker.state = text_at(entry, "state");
    worker.phase = text_at(entry, "phase");
    worker.step = whole_at(entry, "step");
    worker.steps = whole_at(entry, "steps");
    const Json speed = value_at(entry, "examples_per_second");
    if (speed.is_number()) worker.examples_per_second = speed.get<double>();
    const Json loss = value_at(entry, "last_loss");
    if (loss.is_number()) worker.loss = loss.get<double>();
  }
}

void JobView::take_progress(const Json &data) {
  const auto found = workers_.find(whole_at(data, "worker_id"));
  if (found == workers_.end()) return;
  round_ = std::max(round_, whole_at(data, "round"));
  WorkerView &worker = found->second;
  worker.state = "training";
  worker.phase = text_at(data, "phase");
  worker.step = whole_at(data, "step");
  worker.steps = whole_at(data, "steps");
  const Json speed = value_at(data, "examples_per_second");
  if (speed.is_number()) worker.examples_per_second = speed.get<double>();
  const Json loss = value_at(data, "loss");
  if (loss.is_number()) worker.loss = loss.get<double>();
}

std::string bar_line(const WorkerView &worker, std::size_t name_width, std::size_t width) {
  std::string line = padded(worker.name, std::min(name_width, kNameCharactersMax)) + "  " +
                     padded(what_it_does(worker), 12) + " " + bar(worker);
  if (worker.steps > 0)
    line += "  " + std::to_string(has_finished(worker) ? worker.steps : worker.step) + "/" +
            std::to_string(worker.steps);
  if (worker.examples_per_second > 0) line += "  " + fixed(worker.examples_per_second, 0) + " examples/s";
  if (worker.loss) line += "  loss " + fixed(*worker.loss, 4);
  return first_characters(line, width);
}

std::string progress_line(const JobView &job) {
  std::string line = of_rounds(job.round(), job.num_rounds());
  for (const auto &[id, worker] : job.workers()) {
    line += "  " + worker.name + " ";
    line += worker.state == "training" && worker.steps > 0
                ? std::to_string(worker.step) + "/" + std::to_string(worker.steps)
                : what_it_does(worker);
  }
  return line;
}

std::string round_line(const Json &record, std::uint64_t num_rounds) {
  std::size_t workers = 0;
  for (const Json &contribution : value_at(record, "contributions")) {
    const std::string state = text_at(contribution, "state");
    if (state == "valid" || state == "empty") ++workers;
  }
  return of_rounds(whole_at(record, "round"), num_rounds) +
         "  train_loss=" + number_at(record, "train_loss", 4) + "  workers=" + std::to_string(workers) +
         "  examples=" + text_at(record, "examples") + "  " + number_at(record, "seconds", 1) + " s";
}

std::string validation_line(const Json &data, std::uint64_t num_rounds) {
  const std::uint64_t round = whole_at(data, "round");
  const std::string accuracy = accuracy_of(data);
  return (round == 0 ? "before round 1" : of_rounds(round, num_rounds)) +
         "  validation_loss=" + number_at(data, "loss", 4) + (accuracy.empty() ? "" : "  " + accuracy);
}

std::string final_line(const Json &job) {
  const Json evaluation = value_at(job, "final_validation");
  if (evaluation.is_null()) return {};
  const std::string accuracy = accuracy_of(evaluation);
  return "final: " + of_rounds(whole_at(job, "round"), whole_at(job, "num_rounds")) +
         " validation_loss=" + number_at(evaluation, "loss", 4) + (accuracy.empty() ? "" : " " + accuracy);
}

}  // namespace parsyn::programs
