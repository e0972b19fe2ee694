// What a job's state machine asks for, done: journal, events, tasks, checks, averages.
#include <algorithm>
#include <new>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"
#include "parsyn/aggregator.hpp"
#include "parsyn/safetensors.hpp"

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
    start_clean_up(update_folder(id, actions.discard->round, actions.discard->attempt), batch);
    if (!entry.job.records().empty() && entry.job.records().back().succeeded)
      entry.kept_rounds.insert(entry.job.records().back().round);
  }
  if (!actions.changes.rounds.empty()) collect_models(entry, batch);
  if (actions.ended) {
    start_clean_up(partitions_folder(id), batch);
    if (entry.job.attempt() > 0)
      start_clean_up(update_folder(id, entry.job.round(), entry.job.attempt()), batch);
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
  task.upload =
      UploadSlot{update_key(job, task.round, entry.job.attempt(), invitation.worker, invitation.lease),
                 update_bytes_max(*entry.specs),
                 {}};
  const std::int64_t round = task.round;
  const auto steps = static_cast<std::int64_t>(task.steps);
  if (!give(invitation.worker, entry, std::move(task), batch)) return;
  publish(entry,
          {"worker_invited",
           "worker " + std::to_string(invitation.worker) + " is invited to round " + std::to_string(round) +
               " with " + std::to_string(invitation.num_examples) + " examples",
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

void CoordinatorImpl::start_partitioning(JobEntry &entry, std::uint32_t count, Batch &batch) {
  const core::JobSetup &setup = entry.job.setup();
  Division division{.job = setup.id,
                    .dataset = setup.config.dataset_id,
                    .count = count,
                    .config = {},
                    .seed = setup.config.seed.value_or(0)};
  if (setup.config.is_distributed()) division.config = setup.config.distributed->partitioning;
  work_later(batch, [this, division, now = runtime_.now()] { divide(division, now, 0); });
}

void CoordinatorImpl::divide(const Division &division, Time first_tried, unsigned tries) {
  const Id job = division.job;
  try {
    std::vector<std::uint64_t> examples;
    const InterruptibleSource source(options_.store->open(train_key(division.dataset)), stopping_);
    auto stored = store_partitions(*options_.store, source, job, division.count,
                                   *make_partitioner(division.config), division.seed, examples);
    step_later(job, core::PartitionsMade{std::move(examples)},
               [stored = std::move(stored)](JobEntry &made, Batch &with) {
                 made.partitions = stored;
                 with.writes.push_back({"job_partitions", wire::journal_key({made.job.setup().id}),
                                        wire::encode_stored(stored)});
               });
  } catch (const std::exception &error) {
    const bool tried_again =
        !stopping_ && is_ours(error) &&
        retry_later(job, "the data cannot be divided", error.what(), first_tried, tries,
                    [this, division, first_tried, tries] { divide(division, first_tried, tries + 1); });
    if (!stopping_ && !tried_again)
      step_later(job, core::DriverFailed{std::string("the data could not be divided: ") + error.what()});
  }
  // A job that ended meanwhile has cleaned up before these objects were there.
  try {
    if (is_terminal(job_state(job))) clean_up(partitions_folder(job));
  } catch (const Error &) {
  }
}

void CoordinatorImpl::start_check(JobEntry &entry, Id worker, Batch &batch) {
  const ReportSummary report = entry.job.current()->participants().at(worker).report;
  const core::UpdateVerdict verdict{worker, entry.job.round(), entry.job.attempt(), {}};
  work_later(batch, [this, job = entry.job.setup().id, verdict, report, specs = entry.specs,
                     now = runtime_.now()] { check_update(job, verdict, report, specs, now, 0); });
}

void CoordinatorImpl::check_update(Id job, core::UpdateVerdict verdict, const ReportSummary &report,
                                   const std::shared_ptr<const std::vector<TensorSpec>> &specs,
                                   Time first_tried, unsigned tries) {
  const std::string key = update_key(job, verdict.round, verdict.attempt, verdict.worker, report.lease);
  try {
    const ObjectInfo info = options_.store->stat(key);
    if (info.sha256 != report.sha256) {
      verdict.refusal = "the stored update has SHA-256 " + info.sha256 + "; the report says " + report.sha256;
    } else {
      const InterruptibleSource source(options_.store->open(key), stopping_);
      system::PoolExecutor executor(*pool_);
      verdict.refusal = why_update_is_refused(source, *specs, executor);
    }
  } catch (const std::exception &error) {
    if (stopping_) return;
    if (is_ours(error) &&
        retry_later(job, "the update of worker " + std::to_string(verdict.worker) + " cannot be read",
                    error.what(), first_tried, tries,
                    [this, job, verdict, report, specs, first_tried, tries] {
                      check_update(job, verdict, report, specs, first_tried, tries + 1);
                    })) {
      return;
    }
    verdict.refusal = std::string("the stored update could not be read: ") + error.what();
  }
  step_later(job, verdict);
}

void CoordinatorImpl::start_aggregation(JobEntry &entry, std::vector<ReportSummary> reports, Batch &batch) {
  core::RoundAveraged averaged;
  averaged.round = entry.job.round();
  averaged.attempt = entry.job.attempt();
  work_later(batch,
             [this, job = entry.job.setup().id, averaged, reports = std::move(reports), specs = entry.specs,
              now = runtime_.now()] { average(job, averaged, reports, specs, now, 0); });
}

void CoordinatorImpl::average(Id job, core::RoundAveraged averaged, const std::vector<ReportSummary> &reports,
                              const std::shared_ptr<const std::vector<TensorSpec>> &specs, Time first_tried,
                              unsigned tries) {
  ObjectInfo stored;
  try {
    std::vector<std::unique_ptr<InterruptibleSource>> sources;
    std::vector<Update> updates;
    for (const ReportSummary &report : reports) {
      const std::string key = update_key(job, averaged.round, averaged.attempt, report.worker, report.lease);
      // What was checked is what counts: an upload that was under way may have replaced it since.
      if (options_.store->stat(key).sha256 != report.sha256) {
        throw Error(ErrorCode::corrupt_data, "the update of worker " + std::to_string(report.worker) +
                                                 " is not the one that was checked any more");
      }
      sources.push_back(std::make_unique<InterruptibleSource>(options_.store->open(key), stopping_));
      updates.push_back({report.worker, report.num_examples, sources.back().get()});
    }
    const auto writer = options_.store->create(global_key(job, averaged.round, averaged.attempt));
    system::PoolExecutor executor(*pool_);
    FedAvgAggregator().aggregate(*specs, updates, executor, *writer, {{"format", "pt"}});
    stored = writer->commit();
    averaged.key = stored.key;
    averaged.sha256 = stored.sha256;
    averaged.bytes = stored.bytes;
  } catch (const std::exception &error) {
    if (stopping_) return;
    if (is_ours(error) && retry_later(job, "the updates cannot be averaged", error.what(), first_tried, tries,
                                      [this, job, averaged, reports, specs, first_tried, tries] {
                                        average(job, averaged, reports, specs, first_tried, tries + 1);
                                      })) {
      return;
    }
    averaged.failure = error.what();
  }
  const bool succeeded = averaged.failure.empty();
  step_later(job, averaged, [this, succeeded, stored](JobEntry &done, Batch &batch) {
    if (!succeeded) return;
    if (is_terminal(done.job.state())) return remove_objects({stored.key}, batch);
    done.global = stored;
  });
}

bool CoordinatorImpl::retry_later(Id job, const std::string &what, const std::string &why, Time first_tried,
                                  unsigned tries, std::function<void()> work) {
  const Time now = runtime_.now();
  if (now - first_tried >= limits::kStorageRetryTimeout) return false;
  const auto pause = std::min<std::chrono::milliseconds>(limits::kBackoffFirst * (1U << std::min(tries, 8U)),
                                                         limits::kStorageRetryMax);
  try {
    loop_->post(
        {[this, job, what, why, tries, at = now + pause, work = std::move(work)](Batch &batch) {
           JobEntry &entry = find_job(job);
           if (is_terminal(entry.job.state())) return;
           if (tries == 0) {
             publish(entry,
                     {"storage_waits", what + " for now: " + why + ". It is tried again until it works", {}},
                     batch);
           }
           retries_.emplace(at, work);
         },
         {}});
  } catch (const Error &) {
    // Stopped: the job stays as it is.
  }
  return true;
}

void CoordinatorImpl::start_clean_up(const std::string &prefix, Batch &batch) {
  work_later(batch, [this, prefix] { clean_up(prefix); });
}

void CoordinatorImpl::clean_up(const std::string &prefix) const {
  try {
    for (const std::string &key : options_.store->list(prefix)) options_.store->remove(key);
  } catch (const std::exception &error) {
    log_now(LogLevel::warning, "store.remove",
            "objects below " + prefix + " could not be removed: " + error.what());
  }
}

}  // namespace parsyn::coordinator
