// What a job's state machine asks for, done: journal, events, tasks, checks, averages.
#include <algorithm>
#include <new>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"
#include "core/counted.hpp"
#include "parsyn/aggregator.hpp"
#include "parsyn/safetensors.hpp"
#include "system/sha256.hpp"

namespace parsyn::coordinator {
namespace {

/// What a worker's file may have beyond its tensors: a header of another writer's making.
std::uint64_t update_bytes_max(const std::vector<TensorSpec> &specs) {
  const SafetensorsLayout layout = layout_safetensors(specs);
  return layout.file_bytes + 3 * layout.head.size() + (std::uint64_t{64} << 10);
}

/// The coordinator's own disk or memory, which may be there again in a moment; not what a worker has sent.
bool is_ours(const std::exception &error) {
  if (dynamic_cast<const std::bad_alloc *>(&error) != nullptr) return true;
  const auto *known = dynamic_cast<const Error *>(&error);
  return known != nullptr && (known->code() == ErrorCode::io || known->code() == ErrorCode::unavailable ||
                              known->code() == ErrorCode::timeout);
}

/// Never empty, which would mean that nothing has failed.
std::string why(const std::exception &error) {
  const std::string text = error.what();
  return text.empty() ? "no reason was given" : text;
}

ObjectRef ref_of(const ObjectInfo &info) { return {info.key, info.bytes, info.sha256, {}}; }

}  // namespace

void CoordinatorImpl::step(JobEntry &entry, const core::JobEvent &event, Batch &batch) {
  if (is_terminal(entry.job.state())) return;
  apply(entry, entry.job.step(event, runtime_.now()), batch);
}

void CoordinatorImpl::step_all(const core::JobEvent &event, Batch &batch) {
  for (auto next = open_jobs_.begin(); next != open_jobs_.end();) {
    JobEntry &entry = *(next++)->second;  // step() takes out a job that ends
    step(entry, event, batch);
  }
}

void CoordinatorImpl::apply(JobEntry &entry, core::JobActions actions, Batch &batch) {
  const Id id = entry.job.setup().id;
  entry.wake_at = actions.wake_at;
  if (entry.job.state() == JobState::running && !entry.started_ms) entry.started_ms = runtime_.wall_ms();
  if (actions.ended) {
    entry.ended_ms = runtime_.wall_ms();
    open_jobs_.erase(id);
  }
  entry.unkept.job = entry.unkept.job || actions.changes.job;
  entry.unkept.seats.insert(actions.changes.seats.begin(), actions.changes.seats.end());
  entry.unkept.rounds.insert(actions.changes.rounds.begin(), actions.changes.rounds.end());
  unkept_jobs_.insert(id);
  for (core::Notice &notice : actions.notices) publish(entry, std::move(notice), batch);

  for (const Id worker : actions.withdraw) {
    if (Session *session = sessions_.find(worker)) {
      Sessions::drop(*session, [&](const Task &task) { return task.job_id == id; });
    }
  }
  if (actions.make_partitions) start_partitioning(entry, *actions.make_partitions, batch);
  for (const core::JobInvitation &invitation : actions.invite) invite(entry, invitation, batch);
  for (const Id worker : actions.check) start_check(entry, worker, batch);
  if (!actions.aggregate.empty()) start_aggregation(entry, std::move(actions.aggregate), batch);
  for (const Invitation &invitation : actions.evaluate) ask_for_evaluation(entry, invitation, batch);
  if (actions.discard) {
    start_clean_up(update_folder(id, *actions.discard), batch);
    if (!entry.job.records().empty() && entry.job.records().back().succeeded)
      entry.kept_rounds.insert(entry.job.records().back().round);
  }
  if (!actions.changes.rounds.empty()) collect_models(entry, batch);
  if (actions.ended) {
    start_clean_up(partitions_folder(id), batch);
    if (entry.job.attempt() > 0)
      start_clean_up(update_folder(id, {.round = entry.job.round(), .attempt = entry.job.attempt()}), batch);
    batch.effects.push_back([this, id] { unload_events(id); });
  }
  job_changed_->notify_all();
}

Task CoordinatorImpl::task_of(const JobEntry &entry, Task::Kind kind) const {
  const core::Job &job = entry.job;
  Task task;
  task.kind = kind;
  task.job_id = job.setup().id;
  task.job_name = job.setup().config.name;
  task.round = job.round();
  task.num_rounds = job.num_rounds();
  task.steps = job.steps();
  task.first_step = (job.round() - 1) * job.steps();
  task.total_steps = job.num_rounds() * job.steps();
  task.seed = job.setup().config.seed.value_or(0);
  task.model = job.setup().model;
  task.config = job.setup().config.config;
  task.global = ref_of(entry.global);
  if (entry.module) task.module = ref_of(*entry.module);
  if (entry.validation) task.validation = ref_of(*entry.validation);
  return task;
}

void CoordinatorImpl::invite(JobEntry &entry, const core::JobInvitation &invitation, Batch &batch) {
  Session *session = sessions_.find(invitation.worker);
  if (session == nullptr || session->lease != invitation.lease) return;
  const Id job = entry.job.setup().id;
  Sessions::drop(*session, [&](const Task &task) { return task.job_id == job; });
  Task task = task_of(entry, Task::Kind::train);
  task.num_examples = invitation.num_examples;
  if (invitation.partition) {
    task.train = ref_of(entry.partitions.at(*invitation.partition));
  } else {
    task.local_dataset = entry.job.setup().dataset_name;
  }
  const core::RoundAttempt attempt{.round = task.round, .attempt = entry.job.attempt()};
  task.upload = UploadSlot{
      update_key(job, attempt, {invitation.worker, invitation.lease}), update_bytes_max(*entry.specs), {}};
  const std::int64_t round = task.round;
  const auto steps = static_cast<std::int64_t>(task.steps);
  if (!give(invitation.worker, entry, std::move(task), batch)) return;
  publish(entry,
          {"worker_invited",
           "worker " + std::to_string(invitation.worker) + " is invited to round " + std::to_string(round) +
               " with " + core::counted(invitation.num_examples, "example"),
           {{"worker_id", static_cast<std::int64_t>(invitation.worker)},
            {"round", round},
            {"steps", steps},
            {"partition", invitation.partition ? static_cast<std::int64_t>(*invitation.partition) : -1}}},
          batch);
}

void CoordinatorImpl::ask_for_evaluation(JobEntry &entry, const Invitation &invitation, Batch &batch) {
  const Session *session = sessions_.find(invitation.worker);
  if (session == nullptr || session->lease != invitation.lease) return;
  give(invitation.worker, entry, task_of(entry, Task::Kind::evaluate), batch);
}

bool CoordinatorImpl::give(Id worker, const JobEntry &entry, Task task, Batch &batch) {
  Session &session = *sessions_.find(worker);
  const bool evaluates = task.kind == Task::Kind::evaluate;
  const auto same = std::ranges::find_if(session.kept_tasks, [&](const wire::StoredTask &kept) {
    return kept.job_id == task.job_id && kept.attempt == entry.job.attempt() && kept.evaluates == evaluates;
  });
  const bool known =
      same != session.kept_tasks.end() && Sessions::find_task(session, same->task_id) == nullptr;
  task.task_id = known ? same->task_id : ++last_task_;
  if (!known) session.kept_tasks.push_back({task.task_id, task.job_id, entry.job.attempt(), evaluates});
  unkept_sessions_.insert(worker);
  sessions_.give(session, std::move(task), batch.effects);
  return !known;
}

template <typename Work>
bool CoordinatorImpl::try_again(const Work &work, void (CoordinatorImpl::*perform)(const Work &),
                                const std::string &what, const std::exception &error) {
  const Time now = runtime_.now();
  if (!is_ours(error) || now - work.tries.first >= limits::kStorageRetryTimeout) return false;
  const auto pause = std::min<std::chrono::milliseconds>(
      limits::kBackoffFirst * (1U << std::min(work.tries.before, 8U)), limits::kStorageRetryMax);
  const std::string text = what + " for now: " + why(error) + ". It is tried again until it works";
  Work again = work;
  ++again.tries.before;
  try {
    loop_->post({[this, perform, text, at = now + pause, again = std::move(again)](Batch &batch) {
                   JobEntry &entry = find_job(again.job);
                   if (is_terminal(entry.job.state())) return;
                   if (again.tries.before == 1) publish(entry, {"storage_waits", text, {}}, batch);
                   retries_.emplace(at, [this, perform, again] { (this->*perform)(again); });
                 },
                 {}});
  } catch (const Error &) {
    // Stopped: the job stays as it is.
  }
  return true;
}

void CoordinatorImpl::start_partitioning(JobEntry &entry, std::uint32_t count, Batch &batch) {
  const core::JobSetup &setup = entry.job.setup();
  Division division;
  division.job = setup.id;
  division.dataset = setup.config.dataset_id;
  division.count = count;
  division.seed = setup.config.seed.value_or(0);
  division.tries.first = runtime_.now();
  if (setup.config.is_distributed()) division.config = setup.config.distributed->partitioning;
  work_later(batch, [this, division] { divide(division); });
}

void CoordinatorImpl::divide(const Division &division) {
  const Id job = division.job;
  try {
    const InterruptibleSource source(options_.store->open(train_key(division.dataset)), stopping_);
    StoredPartitions stored = store_partitions(*options_.store, source,
                                               {.job = job,
                                                .count = division.count,
                                                .partitioner = *make_partitioner(division.config),
                                                .seed = division.seed});
    step_later(job, core::PartitionsMade{std::move(stored.examples)},
               [objects = std::move(stored.objects)](JobEntry &made, Batch &with) {
                 made.partitions = objects;
                 with.writes.push_back({"job_partitions", wire::journal_key({made.job.setup().id}),
                                        wire::encode_stored(objects)});
               });
  } catch (const std::exception &error) {
    if (!stopping_ && !try_again(division, &CoordinatorImpl::divide, "the data cannot be divided", error))
      step_later(job, core::DriverFailed{"the data could not be divided: " + why(error)});
  }
  // A job that ended meanwhile has cleaned up before these objects were there.
  try {
    if (is_terminal(job_state(job))) clean_up(partitions_folder(job));
  } catch (const Error &) {
  }
}

CoordinatorImpl::UpdateWork CoordinatorImpl::update_work(const JobEntry &entry,
                                                         std::vector<ReportSummary> reports) const {
  UpdateWork work;
  work.job = entry.job.setup().id;
  work.attempt = {.round = entry.job.round(), .attempt = entry.job.attempt()};
  work.reports = std::move(reports);
  work.specs = entry.specs;
  work.reads_digests = entry.job.attempt() == entry.attempt_before;
  work.tries.first = runtime_.now();
  return work;
}

void CoordinatorImpl::start_check(JobEntry &entry, Id worker, Batch &batch) {
  const ReportSummary &report = entry.job.current()->participants().at(worker).report;
  work_later(batch, [this, work = update_work(entry, {report})] { check_update(work); });
}

std::string CoordinatorImpl::digest_of(const UpdateWork &work, const std::string &key) const {
  if (!work.reads_digests) return options_.store->stat(key).sha256;
  return system::sha256_hex(InterruptibleSource(options_.store->open(key), stopping_));
}

void CoordinatorImpl::check_update(const UpdateWork &work) {
  const ReportSummary &report = work.reports.front();
  core::UpdateVerdict verdict{report.worker, work.attempt.round, work.attempt.attempt, {}};
  const std::string key = update_key(work.job, work.attempt, {report.worker, report.lease});
  try {
    if (const std::string sha256 = digest_of(work, key); sha256 != report.sha256) {
      verdict.refusal = "the stored update has SHA-256 " + sha256 + "; the report says " + report.sha256;
    } else {
      const InterruptibleSource source(options_.store->open(key), stopping_);
      system::PoolExecutor executor(*pool_);
      verdict.refusal = why_update_is_refused(source, *work.specs, executor);
    }
  } catch (const std::exception &error) {
    if (stopping_) return;
    const std::string what = "the update of worker " + std::to_string(report.worker) + " cannot be read";
    if (try_again(work, &CoordinatorImpl::check_update, what, error)) return;
    verdict.refusal = "the stored update could not be read: " + why(error);
  }
  step_later(work.job, verdict);
}

void CoordinatorImpl::start_aggregation(JobEntry &entry, std::vector<ReportSummary> reports, Batch &batch) {
  work_later(batch, [this, work = update_work(entry, std::move(reports))] { average(work); });
}

ObjectInfo CoordinatorImpl::store_average(const UpdateWork &work) {
  std::vector<std::unique_ptr<InterruptibleSource>> sources;
  std::vector<Update> updates;
  // What was checked is what counts: an upload that was under way may have replaced it since.
  const auto key_of_checked = [&](const ReportSummary &report) {
    std::string key = update_key(work.job, work.attempt, {report.worker, report.lease});
    if (digest_of(work, key) != report.sha256) {
      throw Error(ErrorCode::corrupt_data, "the update of worker " + std::to_string(report.worker) +
                                               " is not the one that was checked any more");
    }
    return key;
  };
  for (const ReportSummary &report : work.reports) {
    const std::string key = key_of_checked(report);
    auto source = sources.size() < limits::kOpenUpdatesMax ? options_.store->open(key)
                                                           : open_for_each_read(*options_.store, key);
    sources.push_back(std::make_unique<InterruptibleSource>(std::move(source), stopping_));
    updates.push_back({report.worker, report.num_examples, sources.back().get()});
  }
  const auto writer = options_.store->create(global_key(work.job, work.attempt));
  system::PoolExecutor executor(*pool_);
  FedAvgAggregator().aggregate(*work.specs, updates, executor, *writer, {{"format", "pt"}});
  // Of those that were opened again and again, too.
  for (std::size_t i = limits::kOpenUpdatesMax; i < work.reports.size(); ++i) key_of_checked(work.reports[i]);
  return writer->commit();
}

void CoordinatorImpl::average(const UpdateWork &work) {
  core::RoundAveraged averaged;
  averaged.round = work.attempt.round;
  averaged.attempt = work.attempt.attempt;
  ObjectInfo stored;
  try {
    stored = store_average(work);
    averaged.key = stored.key;
    averaged.sha256 = stored.sha256;
    averaged.bytes = stored.bytes;
  } catch (const std::exception &error) {
    if (stopping_) return;
    if (try_again(work, &CoordinatorImpl::average, "the updates cannot be averaged", error)) return;
    averaged.failure = why(error);
  }
  const bool succeeded = averaged.failure.empty();
  step_later(work.job, averaged, [this, succeeded, stored](JobEntry &done, Batch &batch) {
    if (!succeeded) return;
    if (is_terminal(done.job.state())) return remove_objects({stored.key}, batch);
    done.global = stored;
  });
}

void CoordinatorImpl::start_clean_up(const std::string &prefix, Batch &batch) {
  work_later(batch, [this, prefix] { clean_up(prefix); });
}

void CoordinatorImpl::clean_up(const std::string &prefix) const {
  try {
    for (const std::string &key : options_.store->list(prefix)) {
      if (stopping_) return;  // the next start sweeps them
      options_.store->remove(key);
    }
  } catch (const std::exception &error) {
    log_now(LogLevel::warning, "store.remove",
            "objects below " + prefix + " could not be removed: " + why(error));
  }
}

}  // namespace parsyn::coordinator
