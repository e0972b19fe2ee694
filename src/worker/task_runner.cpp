#include "worker/task_runner.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace parsyn::worker {
namespace {

/// Jobs whose data and trainer are kept ready: rounds of two jobs may take turns.
constexpr std::size_t kJobsKept = 2;

/// Removes the file at the end, however that comes.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  const std::filesystem::path &path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void check_same_tensors(const StateDict &global, const StateDict &trained) {
  for (const TensorSpec &spec : specs_of(global)) {
    const auto found = trained.find(spec.name);
    if (found == trained.end())
      throw Error(ErrorCode::internal, "the trainer returned no tensor " + spec.name);
    if (found->second.dtype != spec.dtype || found->second.shape != spec.shape) {
      throw Error(ErrorCode::internal, "the trainer returned tensor " + spec.name + " with shape " +
                                           shape_text(found->second.shape) + " and dtype " +
                                           std::string(dtype_name(found->second.dtype)) + "; the model has " +
                                           shape_text(spec.shape) + " and " +
                                           std::string(dtype_name(spec.dtype)));
    }
  }
  if (trained.size() != global.size())
    throw Error(ErrorCode::internal, "the trainer returned tensors that the model does not have");
}

}  // namespace

struct TaskRunner::JobContext {
  std::shared_ptr<const Examples> train;
  std::shared_ptr<const Examples> validation;
  std::string train_sha256;   // which partition it is
  std::string module_sha256;  // empty: none
  TrainerJob job;
  std::unique_ptr<Trainer> trainer;
};

TaskRunner::TaskRunner(TaskRunnerOptions options, ProgressBoard &board)
    : options_(std::move(options)),
      board_(board),
      updates_(options_.cache / "updates"),
      objects_(options_.cache / "objects", options_.cache_bytes_max, options_.download) {
  // What a process before this one was killed over: its task is done anew.
  std::error_code ignored;
  std::filesystem::remove_all(updates_, ignored);
}

TaskRunner::~TaskRunner() = default;

Report TaskRunner::run(const Task &task, Id worker_id) {
  worker_id_ = worker_id;
  Report report;
  report.task_id = task.task_id;
  report.job_id = task.job_id;
  report.round = task.round;
  try {
    perform(task, report);
  } catch (const Error &error) {
    if (error.code() == ErrorCode::cancelled || board_.cancelled())
      throw Error(ErrorCode::cancelled, "the task is over");
    report.failure = error.message();
  } catch (const std::exception &error) {
    report.failure = std::string("the trainer failed: ") + error.what();
  } catch (...) {
    report.failure = "the trainer failed with an exception that is no std::exception";
  }
  // Whatever state it left is not to be trusted.
  if (!report.failure.empty())
    std::erase_if(jobs_, [&](const auto &context) { return context->job.job_id == task.job_id; });
  return report;
}

std::set<std::string> TaskRunner::objects_in_use(const Task &task) const {
  std::set<std::string> in_use{task.global.sha256};
  for (const auto *object : {&task.module, &task.train, &task.validation}) {
    if (*object) in_use.insert((*object)->sha256);
  }
  for (const auto &context : jobs_) in_use.insert(context->module_sha256);
  return in_use;
}

// A trainer that throws cancelled while nobody has cancelled the task would have it handed out again, to end
// the same way, without a word.
template <typename Call>
auto TaskRunner::by_trainer(const Call &call) {
  try {
    return call();
  } catch (const Error &error) {
    if (error.code() != ErrorCode::cancelled || board_.cancelled()) throw;
    throw Error(ErrorCode::internal,
                "the trainer gave up, though its task was not cancelled: " + error.message());
  }
}

void TaskRunner::perform(const Task &task, Report &report) {
  objects_.keep(objects_in_use(task));
  board_.set_phase("downloading");
  const StateDict global = fetch_weights(task.global);
  JobContext &context = context_of(task);

  if (context.validation) {
    board_.set_phase("evaluating");
    report.received = by_trainer([&] { return context.trainer->evaluate(global, board_); });
    check_cancelled();
  }
  if (task.kind == Task::Kind::evaluate) return;

  board_.set_phase("training");
  const RoundTask round{.round = task.round, .steps = task.steps, .first_step = task.first_step};
  StateDict trained = by_trainer([&] { return context.trainer->train(global, round, board_); });
  check_cancelled();
  check_same_tensors(global, trained);
  report.train_loss = board_.mean_loss();
  if (context.validation) {
    board_.set_phase("evaluating");
    report.own = by_trainer([&] { return context.trainer->evaluate(trained, board_); });
    check_cancelled();
  }

  board_.set_phase("uploading");
  system::make_folders(updates_);  // each time: it may have been removed meanwhile
  const TemporaryFile file(updates_ / (std::to_string(task.task_id) + ".safetensors"));
  system::AtomicFile out(file.path());
  system::DigestingSink digested(out);
  write_safetensors(trained, digested, {{"format", "pt"}});
  out.commit();
  report.sha256 = digested.sha256();
  report.bytes = out.bytes_written();
  report.key = task.upload->key;
  // The weight: the partition's size as the coordinator knows it, or our own count where the data is ours.
  report.num_examples = context.job.train->count();
  options_.upload(*task.upload, file.path());
}

void TaskRunner::check_cancelled() const {
  if (board_.cancelled()) throw Error(ErrorCode::cancelled, "the task is over");
}

StateDict TaskRunner::fetch_weights(const ObjectRef &object) {
  const std::filesystem::path file = objects_.fetch(object);
  // Each round brings new ones.
  if (!last_weights_.empty() && last_weights_ != file) objects_.remove(last_weights_);
  last_weights_ = file;
  return read_safetensors(system::FileSource(file));
}

TaskRunner::JobContext &TaskRunner::context_of(const Task &task) {
  const std::string train_sha256 = task.train ? task.train->sha256 : std::string();
  const auto found =
      std::ranges::find(jobs_, task.job_id, [](const auto &context) { return context->job.job_id; });
  if (found != jobs_.end()) {
    const bool evaluates_only = task.kind == Task::Kind::evaluate;
    if (evaluates_only || (*found)->train_sha256 == train_sha256) {
      std::rotate(found, found + 1, jobs_.end());
      return *jobs_.back();
    }
    jobs_.erase(found);  // the job gave this worker another partition
  }
  while (jobs_.size() >= kJobsKept) jobs_.erase(jobs_.begin());
  jobs_.push_back(make_context(task));
  return *jobs_.back();
}

std::unique_ptr<TaskRunner::JobContext> TaskRunner::make_context(const Task &task) {
  auto context = std::make_unique<JobContext>();
  if (task.train) context->train_sha256 = task.train->sha256;
  const auto load = [&](const ObjectRef &object) {
    check_cancelled();
    return std::make_shared<const Examples>(
        Examples::from_state_dict(read_safetensors(system::FileSource(objects_.fetch(object)))));
  };
  if (task.train) {
    context->train = load(*task.train);
  } else if (!task.local_dataset.empty()) {
    const auto own = options_.local_data->find(task.local_dataset);
    if (own == options_.local_data->end())
      throw Error(ErrorCode::not_found, "this worker has no local data named " + task.local_dataset);
    context->train = own->second;
  }
  if (task.validation) context->validation = load(*task.validation);
  TrainerJob &job = context->job;
  if (task.module) {
    job.module_path = objects_.fetch(*task.module).string();
    context->module_sha256 = task.module->sha256;
  }
  job.job_id = task.job_id;
  job.worker_id = worker_id_;
  job.seed = task.seed;
  job.model = task.model;
  job.config = task.config;
  job.total_steps = task.total_steps;
  job.train = context->train.get();
  job.validation = context->validation.get();
  check_cancelled();
  context->trainer = by_trainer([&] { return options_.trainer_factory->make_trainer(job); });
  return context;
}

}  // namespace parsyn::worker
