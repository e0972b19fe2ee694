// Performs one task: fetch what it names, evaluate, train, evaluate, write the update.
//
// Thread-safety: one thread at a time; the ProgressBoard tells others.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "parsyn/trainer.hpp"
#include "parsyn/transport.hpp"
#include "worker/object_cache.hpp"
#include "worker/progress_board.hpp"

namespace parsyn::worker {

struct TaskRunnerOptions {
  std::filesystem::path cache;
  std::uint64_t cache_bytes_max = 0;
  TrainerFactory *trainer_factory = nullptr;
  const std::map<std::string, std::shared_ptr<const Examples>> *local_data = nullptr;
  /// Transfers, with their retries; throw Error(cancelled) when the task is over.
  std::function<void(const ObjectRef &, const std::filesystem::path &)> download;
  std::function<void(const UploadSlot &, const std::filesystem::path &)> upload;
};

class TaskRunner {
 public:
  /// Makes the folders of the cache. Throws Error: what the system says when they cannot be made.
  TaskRunner(TaskRunnerOptions options, ProgressBoard &board);
  ~TaskRunner();

  /// The report, without its lease; a task that fails gives a report with `failure`. Throws Error(cancelled)
  /// when the task is over for this worker.
  Report run(const Task &task, Id worker_id);

 private:
  struct JobContext;

  void perform(const Task &task, Report &report);
  void check_cancelled() const;
  JobContext &context_of(const Task &task);
  std::unique_ptr<JobContext> make_context(const Task &task);
  /// The objects of this task, and the modules of the jobs whose trainers are kept.
  std::set<std::string> objects_in_use(const Task &task) const;
  /// Calls the host's trainer.
  template <typename Call>
  auto by_trainer(const Call &call);
  StateDict fetch_weights(const ObjectRef &object);

  TaskRunnerOptions options_;
  ProgressBoard &board_;
  const std::filesystem::path updates_;
  ObjectCache objects_;
  Id worker_id_ = 0;
  std::vector<std::unique_ptr<JobContext>> jobs_;  // the last few, the one that was used last at the end
  std::filesystem::path last_weights_;
};

}  // namespace parsyn::worker
