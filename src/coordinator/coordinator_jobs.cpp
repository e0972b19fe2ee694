// Jobs: admission, status, results.
#include <algorithm>

#include "coordinator/admission.hpp"
#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"
#include "core/counted.hpp"
#include "core/random.hpp"
#include "parsyn/safetensors.hpp"
#include "tensor/initial_weights.hpp"
#include "wire/job_document.hpp"
#include "wire/parsed.hpp"

namespace parsyn::coordinator {
namespace {

constexpr std::uint64_t kInitialWeightsSeedPart = 0x696E6974;  // "init"

/// The same key must come with the same request: the seed that was drawn is not part of what the caller
/// asked.
bool same_request(const JobConfig &kept, JobConfig asked) {
  if (!asked.seed) asked.seed = kept.seed;
  return kept == asked;
}

}  // namespace

const JobEntry &CoordinatorImpl::find_job(Id id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) throw Error(ErrorCode::not_found, "there is no job " + std::to_string(id));
  return *found->second;
}

JobEntry &CoordinatorImpl::find_job(Id id) {
  std::as_const(*this).find_job(id);
  return *jobs_.at(id);
}

std::vector<Fault> CoordinatorImpl::check(const JobConfig &config) const {
  std::vector<Fault> faults = check_job_config(config);
  for (Fault &fault : check_registry(config, {})) faults.push_back(std::move(fault));
  return faults;
}

std::vector<Fault> CoordinatorImpl::check_registry(const JobConfig &config,
                                                   const std::vector<std::string> &unread) const {
  const std::lock_guard lock(mutex_);
  std::map<Id, WorkerInfo> infos;
  for (const auto &[id, worker] : workers_) infos[id] = info_of(worker);
  const auto find = [](const auto &map) {
    return [&map](Id id) {
      const auto found = map.find(id);
      return found == map.end() ? nullptr : &found->second;
    };
  };
  const Registered registered{find(datasets_), find(models_), find(infos)};
  return check_against_registry(config, registered, unread);
}

JobStatus CoordinatorImpl::submit(const JobConfig &asked, const std::string &idempotency_key) {
  const auto earlier = [&]() -> std::optional<JobStatus> {  // under mutex_
    const auto found = idempotency_key.empty() ? job_by_idempotency_key_.end()
                                               : job_by_idempotency_key_.find(idempotency_key);
    if (found == job_by_idempotency_key_.end()) return std::nullopt;
    const JobEntry &entry = find_job(found->second);
    if (!same_request(entry.job.setup().config, asked)) {
      throw Error(ErrorCode::conflict,
                  "job " + std::to_string(found->second) +
                      " was created with this idempotency key and another configuration");
    }
    return status_of(entry);
  };
  const bool is_known = [&] {
    const std::lock_guard lock(mutex_);
    return !idempotency_key.empty() && job_by_idempotency_key_.contains(idempotency_key);
  }();
  // Through the loop: the first request's batch may still be under way, and what it says not yet be kept.
  if (is_known) return loop_->call<JobStatus>([&](Batch &) { return earlier().value(); });
  if (auto faults = check(asked); !faults.empty()) throw wire::refusal("training job", std::move(faults));

  JobConfig config = asked;
  if (!config.seed) config.seed = runtime_.random_u64();
  const DatasetInfo data = dataset(config.dataset_id);
  const ModelInfo model_info = model(config.model_id);

  core::JobSetup setup;
  setup.id = ++last_job_;
  setup.config = config;
  setup.model = model_info.description;
  setup.local_data = data.local;
  setup.dataset_name = data.name;
  setup.train_examples = data.train ? data.train->num_examples : 0;
  setup.validation_examples = data.validation ? data.validation->num_examples : 0;
  setup.join_window = options_.join_window;
  setup.examples_per_worker_max = options_.examples_per_worker_max;

  auto entry = std::make_unique<JobEntry>(core::Job(setup));
  entry->model = model_info;
  entry->dataset = data;
  entry->created_ms = runtime_.wall_ms();
  entry->idempotency_key = idempotency_key;
  if (config.is_distributed() && !data.local) {
    const auto partitioner = make_partitioner(config.distributed->partitioning);
    entry->partitioner = partitioner->name() + "/" + std::to_string(partitioner->version());
  }
  NewObjects objects(*options_.store, stopping_or({}));
  entry->initial_global =
      model_info.weights_key.empty()
          ? objects.add_state(
                global_key(setup.id, {.round = 0, .attempt = 0}),
                tensor::initial_weights(
                    setup.model, core::derive_seed({*config.seed, kInitialWeightsSeedPart}), stopping_or({})))
          : options_.store->stat(model_info.weights_key);
  entry->global = entry->initial_global;
  if (model_info.weights_key.empty()) entry->kept_rounds.insert(0);
  entry->specs = std::make_shared<const std::vector<TensorSpec>>(
      read_safetensors_header(*options_.store->open(entry->global.key)).specs());
  if (!setup.model.module_key.empty()) entry->module = options_.store->stat(setup.model.module_key);
  if (data.validation) entry->validation = options_.store->stat(validation_key(data.id));

  // std::function copies: the entry is handed over through shared ownership.
  const auto handed = std::make_shared<std::unique_ptr<JobEntry>>(std::move(entry));
  return take(handed, objects, earlier);
}

JobStatus CoordinatorImpl::take(const std::shared_ptr<std::unique_ptr<JobEntry>> &handed, NewObjects &objects,
                                const std::function<std::optional<JobStatus>()> &earlier) {
  return loop_->call<JobStatus>([this, handed, &objects, earlier](Batch &batch) {
    if (auto status = earlier()) return *status;
    if (jobs_.size() >= limits::kJobsMax)
      throw Error(ErrorCode::too_large, "there are already " + std::to_string(limits::kJobsMax) + " jobs");
    JobEntry &kept = **handed;
    const Id id = kept.job.setup().id;
    if (!kept.idempotency_key.empty()) job_by_idempotency_key_[kept.idempotency_key] = id;
    jobs_[id] = std::move(*handed);
    open_jobs_[id] = &kept;
    std::vector<core::WorkerProfile> live;
    for (const auto &[worker, session] : sessions_.all()) live.push_back(profile_of(worker, session));
    batch.writes.push_back(
        {"jobs", wire::journal_key({id}),
         wire::encode_stored(wire::StoredJob{kept.job.setup(), kept.model, kept.dataset, kept.created_ms,
                                             kept.idempotency_key, kept.partitioner, kept.initial_global,
                                             kept.module, kept.validation})});
    objects.keep();
    apply(kept, kept.job.start(live, runtime_.now()), batch);
    return status_of(kept);
  });
}

JobStatus CoordinatorImpl::job(Id id) const {
  return look([&] { return status_of(find_job(id)); });
}

JobState CoordinatorImpl::job_state(Id id) const {
  return look([&] { return find_job(id).job.state(); });
}

std::vector<JobStatus> CoordinatorImpl::jobs(Id after, std::size_t count_max) const {
  return look([&] {
    std::vector<JobStatus> page;
    for (auto entry = jobs_.upper_bound(after); entry != jobs_.end() && page.size() < count_max; ++entry) {
      page.push_back(summary_of(*entry->second));
    }
    return page;
  });
}

JobStatus CoordinatorImpl::stop_job(Id id) { return end_job(id, core::StopRequested{}); }

JobStatus CoordinatorImpl::cancel_job(Id id) { return end_job(id, core::CancelRequested{}); }

JobStatus CoordinatorImpl::end_job(Id id, const core::JobEvent &request) {
  return loop_->call<JobStatus>([this, id, request](Batch &batch) {
    JobEntry &entry = find_job(id);
    if (is_terminal(entry.job.state())) {
      throw Error(ErrorCode::conflict, "job " + std::to_string(id) + " is already " +
                                           std::string(job_state_name(entry.job.state())));
    }
    step(entry, request, batch);
    return status_of(entry);
  });
}

JobStatus CoordinatorImpl::wait(Id id, std::chrono::milliseconds timeout) const {
  // Longer than anyone waits, and short enough to add to a point in time.
  const Time until = runtime_.now() + std::min(timeout, std::chrono::milliseconds(std::chrono::years(1)));
  {
    std::unique_lock lock(mutex_);
    const JobEntry &entry = find_job(id);
    const auto over = [&] { return stopping_ || broken_ || is_terminal(entry.job.state()); };
    runtime_.wait_until(*job_changed_, lock, until, over);
  }
  if (broken_) throw Error(ErrorCode::unavailable, failure());
  return job(id);
}

ObjectInfo CoordinatorImpl::job_model(Id id, const RoundChoice &round) const {
  return options_.store->stat(look([&] { return model_key(find_job(id), round); }));
}

std::string CoordinatorImpl::model_key(const JobEntry &entry, const RoundChoice &round) const {
  if (std::holds_alternative<std::monostate>(round)) return entry.global.key;
  const Id id = entry.job.setup().id;
  const auto &records = entry.job.records();
  if (std::holds_alternative<BestRound>(round)) {
    const auto best = entry.job.best_round();
    if (!best)
      throw Error(ErrorCode::not_found,
                  "job " + std::to_string(id) + " has no best round: no model of a round has been evaluated");
    return records[*best - 1].model_key;
  }
  const std::uint32_t number = std::get<std::uint32_t>(round);
  std::string key;
  if (number == 0) {
    key = entry.initial_global.key;
  } else if (number <= records.size() && records[number - 1].succeeded) {
    key = records[number - 1].model_key;
  } else {
    throw Error(ErrorCode::not_found,
                "job " + std::to_string(id) + " has no model of round " + std::to_string(number));
  }
  const bool its_own = key.starts_with(job_folder(id));
  if (its_own && !entry.kept_rounds.contains(number)) {
    throw Error(ErrorCode::not_found, "the model of round " + std::to_string(number) + " of job " +
                                          std::to_string(id) + " is not kept any more: those of the last " +
                                          core::counted(options_.keep_rounds, "round") +
                                          " and of the best one are (keep_rounds)");
  }
  return key;
}

JobStatus CoordinatorImpl::status_of(const JobEntry &entry) const {
  JobStatus status = summary_of(entry);
  status.rounds = entry.job.records();
  fill_progress(entry, status);
  return status;
}

JobStatus CoordinatorImpl::summary_of(const JobEntry &entry) const {
  const core::Job &job = entry.job;
  JobStatus status;
  status.id = job.setup().id;
  status.config = job.setup().config;
  status.state = job.state();
  status.reason = job.reason();
  status.stopping = job.stopping();
  status.round = job.round();
  status.num_rounds = job.num_rounds();
  status.failed_rounds_in_a_row = job.failed_in_a_row();
  status.created_ms = entry.created_ms;
  status.started_ms = entry.started_ms;
  status.ended_ms = entry.ended_ms;
  if (const auto deadline = job.deadline()) {
    status.deadline_seconds =
        std::max(0.0, std::chrono::duration<double>(*deadline - runtime_.now()).count());
  }
  status.notices = job.notices();
  status.partitioner = entry.partitioner;
  status.initial = job.initial();
  status.best_round = job.best_round();
  status.final_validation = job.final_validation();
  return status;
}

void CoordinatorImpl::fill_progress(const JobEntry &entry, JobStatus &status) const {
  status.workers = entry.job.worker_states();
  const bool running = !is_terminal(entry.job.state());
  for (WorkerProgress &worker : status.workers) {
    if (const auto found = workers_.find(worker.worker_id); found != workers_.end())
      worker.name = found->second.info.name;
    worker.last_loss = entry.losses.last(worker.worker_id, entry.job.round());
    worker.steps = entry.job.steps();
    const bool has_reported =
        worker.state == "reported" || worker.state == "valid" || worker.state == "empty";
    if (has_reported) worker.step = worker.steps;
    const Session *session = sessions_.find(worker.worker_id);
    worker.live = session != nullptr;
    if (!running || session == nullptr) continue;
    const Task *watched = Sessions::find_task(*session, session->watched_task);
    worker.stalled = session->stalled && watched != nullptr && watched->job_id == status.id;
    if (!session->progress || session->progress->job_id != status.id ||
        session->progress->round != status.round) {
      continue;
    }
    worker.examples_per_second = session->progress->examples_per_second;
    if (has_reported) continue;
    worker.phase = session->progress->phase;
    worker.step = session->progress->step;
    worker.steps = session->progress->steps;
  }
}

}  // namespace parsyn::coordinator
