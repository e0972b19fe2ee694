// How a running job looks in a terminal: a line for each finished round, a bar for each worker.
//
// Thread-safety: free functions without state, and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "job/values.hpp"

namespace parsyn::programs {

struct WorkerView {
  std::string name;
  std::string state;  ///< As in the job's document: "training", "valid", "away", ...
  std::string phase;  ///< While training: "downloading", "evaluating", "training", "uploading".
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double examples_per_second = 0;
  std::optional<double> loss;
};

/// What is shown of a job, brought up to date from its document and its events.
class JobView {
 public:
  /// GET /api/v1/training-jobs/{id}. In a job that has ended no worker does anything.
  void take_document(const Json &job);
  /// The data of a worker_progress event.
  void take_progress(const Json &data);

  const std::map<std::uint64_t, WorkerView> &workers() const { return workers_; }
  std::uint64_t num_rounds() const { return num_rounds_; }
  std::uint64_t round() const { return round_; }

 private:
  std::map<std::uint64_t, WorkerView> workers_;
  std::uint64_t num_rounds_ = 0;
  std::uint64_t round_ = 0;
};

/// Whether the job of this document has ended.
bool is_over(const Json &job);
/// "round 3/10".
std::string of_rounds(std::uint64_t round, std::uint64_t num_rounds);
/// "a  training  [=====>     ]  120/200  4310 examples/s  loss 0.4321", cut to `width` characters.
/// `name_width`: of the longest name beside it.
std::string bar_line(const WorkerView &worker, std::size_t name_width, std::size_t width);
/// All workers' progress on one line, for where nothing can be redrawn: "round 3/10  a 120/200  b 80/200".
std::string progress_line(const JobView &job);
/// "round 3/10  train_loss=0.4321  workers=3  examples=60000  12.3 s", from an entry of the job's "rounds".
std::string round_line(const Json &record, std::uint64_t num_rounds);
/// "round 3/10  validation_loss=0.4321  accuracy=0.8532", from the data of a validation event.
std::string validation_line(const Json &data, std::uint64_t num_rounds);
/// "final: round 10/10 validation_loss=0.4321 accuracy=0.8532", from the job's document; empty when its last
/// model was not evaluated.
std::string final_line(const Json &job);

}  // namespace parsyn::programs
