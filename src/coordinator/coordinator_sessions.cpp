// The WorkerService: sessions, tasks, reports, heartbeats.
#include <algorithm>

#include "coordinator/coordinator_impl.hpp"
#include "system/sha256.hpp"
#include "wire/messages.hpp"

namespace parsyn::coordinator {
namespace {

constexpr std::string_view kTrainingPhase = "training";

}  // namespace

Id CoordinatorImpl::authenticate(std::string_view token) {
  const std::string hash = system::sha256_hex(token);
  const std::lock_guard lock(mutex_);
  const auto found = worker_by_token_sha256_.find(hash);
  if (found == worker_by_token_sha256_.end()) {
    throw Error(ErrorCode::unauthorized,
                "this worker token is not known: it is mistyped, of another coordinator, or revoked");
  }
  return found->second;
}

core::WorkerProfile CoordinatorImpl::profile_of(Id worker, const Session &session) const {
  core::WorkerProfile profile;
  profile.id = worker;
  if (const auto found = workers_.find(worker); found != workers_.end())
    profile.kind = found->second.info.kind;
  profile.lease = session.lease;
  profile.capabilities = session.capabilities;
  profile.local_datasets = session.local_datasets;
  return profile;
}

SessionGrant CoordinatorImpl::open_session(Id worker, const SessionRequest &request) {
  if (request.protocol_version != kProtocolVersion) {
    throw Error(ErrorCode::protocol, "this coordinator speaks version " + std::to_string(kProtocolVersion) +
                                         " of the worker protocol, the worker version " +
                                         std::to_string(request.protocol_version) +
                                         ": install the same release on both");
  }
  if (request.instance.empty()) {
    throw Error(ErrorCode::invalid_argument, "instance must name the worker's process",
                {{"instance", "required", "it tells two processes with one token apart: random for each"}});
  }
  return loop_->call<SessionGrant>([this, worker, request](Batch &batch) {
    const auto found = workers_.find(worker);
    if (found == workers_.end())
      throw Error(ErrorCode::unauthorized, "worker " + std::to_string(worker) + " has been removed");
    WorkerInfo &info = found->second.info;
    const Session *older = sessions_.find(worker);
    const std::uint64_t older_lease = older == nullptr ? 0 : older->lease;
    Session &session =
        sessions_.open(worker, request, runtime_.now() + options_.lease_duration, batch.effects);
    const SessionGrant grant{worker,
                             info.name,
                             session.lease,
                             options_.heartbeat_interval,
                             options_.lease_duration,
                             options_.progress_interval};
    if (session.lease == older_lease) return grant;
    if (older_lease != 0) {
      log(LogLevel::warning, "worker.superseded",
          "a new process takes the place of worker " + std::to_string(worker) + " (" + info.name +
              "); the older one is told to stop",
          batch);
    }
    unkept_sessions_.insert(worker);
    info.seen_ms = runtime_.wall_ms();
    info.capabilities = request.capabilities;
    info.local_datasets = request.local_datasets;
    batch.writes.push_back({"workers", wire::journal_key({worker}), wire::encode_stored(found->second)});
    log(LogLevel::info, "worker.online",
        "worker " + std::to_string(worker) + " (" + info.name + ") is online on " +
            request.capabilities.device,
        batch);
    step_all(core::WorkerOnline{profile_of(worker, session)}, batch);
    return grant;
  });
}

void CoordinatorImpl::close_session(Id worker, std::uint64_t lease) {
  loop_->call<bool>([this, worker, lease](Batch &batch) {
    const Session *session = sessions_.find(worker);
    if (session == nullptr || session->lease != lease) return false;
    log(LogLevel::info, "worker.offline", "worker " + std::to_string(worker) + " says goodbye", batch);
    end_session(worker, batch);
    return true;
  });
}

void CoordinatorImpl::end_session(Id worker, Batch &batch) {
  if (sessions_.find(worker) == nullptr) return;
  sessions_.end(worker, batch.effects);
  unkept_sessions_.insert(worker);
  step_all(core::WorkerOffline{worker}, batch);
}

void CoordinatorImpl::next_task(Id worker, const TaskPoll &poll,
                                std::function<void(std::optional<Task>)> answer) {
  loop_->call<bool>([this, worker, poll, answer = std::move(answer)](Batch &batch) {
    // Parked now, it would never be answered.
    if (stopping_) throw Error(ErrorCode::cancelled, "the coordinator has been stopped");
    Session &session = sessions_.live(worker, poll.lease);
    const Time now = runtime_.now();
    session.expires = now + options_.lease_duration;
    const auto wait = std::clamp(poll.wait, std::chrono::milliseconds(0), limits::kLongPoll);
    sessions_.park(session, answer, now + wait, batch.effects);
    return true;
  });
}

HeartbeatAnswer CoordinatorImpl::heartbeat(Id worker, const Heartbeat &heartbeat) {
  return loop_->call<HeartbeatAnswer>([this, worker, heartbeat](Batch &batch) {
    Session &session = sessions_.live(worker, heartbeat.lease);
    session.expires = runtime_.now() + options_.lease_duration;
    if (const auto found = workers_.find(worker); found != workers_.end())
      found->second.info.seen_ms = runtime_.wall_ms();
    HeartbeatAnswer answer;
    if (heartbeat.progress) {
      // Whatever is not outstanding any more has been reported, withdrawn, or belongs to a job that has
      // ended.
      const Task *task = Sessions::find_task(session, heartbeat.progress->task_id);
      if (task == nullptr) {
        answer.cancelled_tasks.push_back(heartbeat.progress->task_id);
      } else {
        note_progress(worker, session, *task, *heartbeat.progress, batch);
      }
    }
    report_if_stalled(worker, session, batch);
    return answer;
  });
}

void CoordinatorImpl::note_progress(Id worker, Session &session, const Task &task, TaskProgress progress,
                                    Batch &batch) {
  // Of the task's own job, round and steps only, whatever the worker says.
  if (progress.job_id != task.job_id || progress.round != task.round) return;
  progress.steps = task.kind == Task::Kind::train ? task.steps : 0;
  progress.step = std::min(progress.step, progress.steps);
  const double speed = progress.examples_per_second;
  if (!(speed >= 0 && speed <= limits::kExamplesPerSecondMax)) progress.examples_per_second = 0;
  const std::uint64_t losses_max =
      progress.first_loss_step > task.steps ? 0 : task.steps - progress.first_loss_step + 1;
  if (progress.losses.size() > losses_max) progress.losses.resize(losses_max);
  const bool moved = !session.progress || session.progress->task_id != progress.task_id ||
                     session.progress->phase != progress.phase || session.progress->step != progress.step;
  if (moved) {
    session.progressed = runtime_.now();
    session.stalled = false;
  }
  session.progress = progress;
  session.progress->losses.clear();
  const auto found = jobs_.find(progress.job_id);
  if (found == jobs_.end() || is_terminal(found->second->job.state()) ||
      found->second->job.round() != progress.round)
    return;
  JobEntry &entry = *found->second;
  entry.losses.add(worker, progress.round, progress.first_loss_step, progress.losses);
  core::Notice notice;
  notice.type = kProgressEvent;
  notice.text = "worker " + std::to_string(worker) + " is " + progress.phase + ", step " +
                std::to_string(progress.step) + " of " + std::to_string(progress.steps);
  notice.fields = {{"worker_id", static_cast<std::int64_t>(worker)},
                   {"round", static_cast<std::int64_t>(progress.round)},
                   {"phase", progress.phase},
                   {"step", static_cast<std::int64_t>(progress.step)},
                   {"steps", static_cast<std::int64_t>(progress.steps)},
                   {"examples_per_second", progress.examples_per_second}};
  if (!progress.losses.empty()) notice.fields.emplace_back("loss", progress.losses.back());
  publish(entry, std::move(notice), batch);
}

void CoordinatorImpl::report_if_stalled(Id worker, Session &session, Batch &batch) {
  if (session.tasks.empty()) return;
  // It performs one task at a time: the one that it tells of; else the oldest is to be begun.
  const TaskProgress *progress = session.progress ? &*session.progress : nullptr;
  const Task *task = progress == nullptr ? nullptr : Sessions::find_task(session, progress->task_id);
  if (task == nullptr) {
    task = &session.tasks.front();
    progress = nullptr;
  }
  const Time now = runtime_.now();
  if (session.watched_task != task->task_id) {
    session.watched_task = task->task_id;
    session.progressed = now;
    session.stalled = false;
  }
  const auto standing = now - session.progressed;
  const auto found = jobs_.find(task->job_id);
  if (session.stalled || standing < options_.stall_timeout || found == jobs_.end()) return;
  session.stalled = true;
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(standing).count();
  const std::string phase = progress == nullptr ? std::string() : progress->phase;
  const std::uint64_t step = progress == nullptr ? 0 : progress->step;
  const std::string for_so_long = " for " + std::to_string(seconds) + " s";
  std::string text = "worker " + std::to_string(worker) + " is live, but ";
  if (phase == kTrainingPhase) {
    text += "has done no step" + for_so_long + ": it is at step " + std::to_string(step) + " of " +
            std::to_string(progress->steps);
  } else if (phase.empty()) {
    text += "has not begun its task of round " + std::to_string(task->round) + for_so_long;
  } else {
    // Of the other phases no steps are known: they may only take long.
    text += "has been " + phase + for_so_long;
  }
  publish(*found->second,
          {"worker_stalled",
           std::move(text),
           {{"worker_id", static_cast<std::int64_t>(worker)},
            {"round", static_cast<std::int64_t>(task->round)},
            {"phase", phase},
            {"step", static_cast<std::int64_t>(step)},
            {"seconds", seconds}}},
          batch);
}

ReportReceipt CoordinatorImpl::report(Id worker, const Report &report) {
  return loop_->call<ReportReceipt>(
      [this, worker, report](Batch &batch) { return take_report(worker, report, batch); });
}

ReportReceipt CoordinatorImpl::take_report(Id worker, const Report &report, Batch &batch) {
  const auto refused = [](std::string code, std::string reason) {
    ReportReceipt receipt;
    receipt.code = std::move(code);
    receipt.reason = std::move(reason);
    return receipt;
  };
  const auto found = jobs_.find(report.job_id);
  if (found == jobs_.end()) {
    return refused("unknown_job", "there is no job " + std::to_string(report.job_id) +
                                      ": drop the update and ask for a new task");
  }
  JobEntry &entry = *found->second;
  Session *session = sessions_.find(worker);
  std::optional<Task> task;
  if (session != nullptr && session->lease == report.lease) {
    if (const Task *outstanding = Sessions::find_task(*session, report.task_id);
        outstanding != nullptr && outstanding->job_id == report.job_id &&
        outstanding->round == report.round) {
      task = *outstanding;
      Sessions::drop(*session, [&](const Task &other) { return other.task_id == report.task_id; });
    }
  }
  const auto accepted = [&] {
    ReportReceipt receipt;
    receipt.accepted = true;
    receipt.current_round = entry.job.round();
    return receipt;
  };
  if (task && task->kind == Task::Kind::evaluate) {
    step(entry,
         core::FinalEvaluation{worker, report.failure.empty() ? report.received : std::nullopt,
                               report.failure},
         batch);
    return accepted();
  }
  // An evaluation that comes when another worker's was first: nothing is wrong with it, and nothing is done
  // with it.
  const bool live = session != nullptr && session->lease == report.lease;
  const bool evaluated = entry.job.state() == JobState::evaluating || is_terminal(entry.job.state());
  const bool late_evaluation = !task && live && evaluated && report.key.empty() && report.failure.empty();
  if (late_evaluation) return accepted();
  if (!report.failure.empty()) {
    if (task) step(entry, core::TaskFailed{worker, report.lease, report.round, report.failure}, batch);
    return accepted();
  }

  core::UpdateReported reported;
  reported.report = {worker, report.lease, report.round, report.sha256, report.num_examples};
  reported.train_loss = report.train_loss;
  reported.received = report.received;
  reported.own = report.own;
  ReportAnswer answer;
  if (task && task->upload && report.key != task->upload->key) {
    answer = {ReportAnswer::Verdict::refused, "wrong_key",
              "the report names another object than the one that the task handed out"};
  } else if (task) {
    core::JobActions actions = entry.job.step(reported, runtime_.now());
    answer = actions.answer.value_or(ReportAnswer{});
    if (answer.verdict == ReportAnswer::Verdict::accepted) {
      batch.writes.push_back({"losses", wire::journal_key({report.job_id, report.round, worker}),
                              wire::encode_stored(entry.losses.thinned(worker, report.round,
                                                                       limits::kLossesKeptPerWorkerRound))});
    }
    apply(entry, std::move(actions), batch);
  } else {
    // No such task is outstanding: a repeat, or too late.
    answer = entry.job.answer_to(reported.report, runtime_.now());
    if (answer.verdict == ReportAnswer::Verdict::accepted) {
      answer = {ReportAnswer::Verdict::refused, "task_over",
                "the task of this report is over: ask for a new task"};
    }
  }
  ReportReceipt receipt;
  receipt.accepted = answer.verdict != ReportAnswer::Verdict::refused;
  receipt.duplicate = answer.verdict == ReportAnswer::Verdict::duplicate;
  receipt.code = answer.code;
  receipt.reason = answer.reason;
  receipt.current_round = entry.job.round();
  if (!receipt.accepted && !is_terminal(entry.job.state())) {
    // Who asks again and again, or has no part in the job, must not push out what has happened in it.
    const std::string refusal = answer.code + " " + std::to_string(report.round);
    if (entry.job.has_seat(worker) && std::exchange(entry.told_refusals[worker], refusal) != refusal) {
      publish(entry,
              {"report_refused",
               "a report of worker " + std::to_string(worker) + " is refused: " + answer.reason,
               {{"worker_id", static_cast<std::int64_t>(worker)},
                {"round", static_cast<std::int64_t>(report.round)},
                {"code", answer.code}}},
              batch);
    }
    // A task whose report was wrong by itself has failed: nothing better will come of it.
    const bool wrong =
        answer.code == "wrong_key" || answer.code == "wrong_examples" || answer.code == "too_many_examples";
    if (task && wrong)
      step(entry, core::TaskFailed{worker, report.lease, report.round, answer.reason}, batch);
  }
  return receipt;
}

bool CoordinatorImpl::may_read(Id worker, std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const Session *session = sessions_.find(worker);
  if (session == nullptr) return false;
  return std::ranges::any_of(session->tasks, [&](const Task &task) {
    return task.global.key == key || (task.module && task.module->key == key) ||
           (task.train && task.train->key == key) || (task.validation && task.validation->key == key);
  });
}

std::uint64_t CoordinatorImpl::may_write(Id worker, std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const Session *session = sessions_.find(worker);
  if (session == nullptr) return 0;
  for (const Task &task : session->tasks) {
    if (task.upload && task.upload->key == key) return task.upload->bytes_max;
  }
  return 0;
}

}  // namespace parsyn::coordinator
