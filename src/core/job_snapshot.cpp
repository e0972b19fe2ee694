// A Job that outlives its process: what the journal keeps of it, and how it goes on from there.
#include <utility>

#include "core/job.hpp"

namespace parsyn::core {

Job::Job(JobSetup setup, KeptJob kept) : Job(std::move(setup)) {
  kept_ = std::move(kept.job);
  records_ = std::move(kept.records);
  round_opened_ = kept.round_opened;
  if (kept_.state == JobState::evaluating) evaluation_deadline_ = kept.deadline.value_or(Time{0});

  std::map<Id, Participant> participants;
  for (SeatSnapshot &one : kept.seats) {
    Seat &seat = seats_[one.worker];
    seat.profile.id = one.worker;
    seat.history = one.history;
    if (one.attempt != kept_.attempt || !one.part) continue;
    participants[one.worker] = std::move(*one.part);
    if (one.report) reports_[one.worker] = std::move(*one.report);
  }
  if (kept_.round_state) {
    const bool timed = round_options().timeout.has_value() && kept_.state == JobState::running;
    current_.emplace(round_options(), *kept_.round_state, timed ? kept.deadline : std::nullopt,
                     std::move(participants));
  }
}

JobSnapshot Job::snapshot() const {
  JobSnapshot job = kept_;
  if (current_) job.round_state = current_->state();
  return job;
}

SeatSnapshot Job::seat(Id worker) const {
  SeatSnapshot kept;
  kept.worker = worker;
  kept.attempt = kept_.attempt;
  if (const auto found = seats_.find(worker); found != seats_.end()) kept.history = found->second.history;
  if (!current_) return kept;
  const auto part = current_->participants().find(worker);
  if (part == current_->participants().end()) return kept;
  kept.part = part->second;
  if (const auto report = reports_.find(worker); report != reports_.end()) kept.report = report->second;
  return kept;
}

JobActions Job::resume(const std::vector<WorkerProfile> &live, Time now) {
  JobActions actions;
  if (is_terminal(kept_.state)) return actions;
  last_join_ = now;
  for (const WorkerProfile &worker : live) take_seat(worker, now);
  say(actions, "coordinator_restarted",
      kept_.state == JobState::running
          ? "the coordinator has started again; round " + std::to_string(kept_.round) + " goes on"
          : "the coordinator has started again; the job goes on");
  switch (kept_.state) {
    case JobState::waiting:
      kept_.reason.clear();  // said again, for those that are live now
      try_to_open(now, actions);
      break;
    case JobState::running:
      resume_round(now, actions);
      break;
    case JobState::evaluating:
      for (auto &[id, failure] : kept_.evaluators) {
        if (failure.empty() && seats_[id].live) actions.evaluate.push_back(invitation_of(id));
      }
      ask_others_to_evaluate(actions);
      on(Tick{}, now, actions);
      break;
    default:
      break;
  }
  return with_wake(actions);
}

void Job::resume_round(Time now, JobActions &actions) {
  if (current_->state() == Round::State::aggregating) {
    for (const auto &[id, part] : current_->participants()) {
      if (part.state == ParticipantState::valid) actions.aggregate.push_back(part.report);
    }
    return;
  }
  const std::uint32_t attempt = kept_.attempt;
  const auto goes_on = [&] { return kept_.state == JobState::running && kept_.attempt == attempt; };
  const std::map<Id, Participant> kept = current_->participants();
  for (const auto &[id, part] : kept) {
    if (part.state != ParticipantState::training || !goes_on()) continue;
    const Seat &seat = seats_[id];
    if (!seat.live || !seat.not_eligible.empty()) {
      drive_round(WorkerLost{id}, now, actions);
    } else if (seat.profile.lease != part.lease) {
      drive_round(WorkerAvailable{invitation_of(id)}, now, actions);
    }
  }
  if (goes_on()) give_on_partitions(now, actions);
  // Whom the round knows is told again too: one that was lost, or failed, and has come back since stands by.
  for (const Id id : candidates()) {
    if (goes_on()) drive_round(WorkerAvailable{invitation_of(id)}, now, actions);
  }
  if (goes_on()) drive_round(TimePassed{}, now, actions);
  if (!goes_on()) return;
  // Those that train under the lease that they had get the same task again; who has reported is checked
  // again.
  for (const auto &[id, part] : current_->participants()) {
    const auto before = kept.find(id);
    if (part.state == ParticipantState::reported) actions.check.push_back(id);
    if (part.state == ParticipantState::training && before != kept.end() &&
        before->second.state == ParticipantState::training && before->second.lease == part.lease) {
      actions.invite.push_back(job_invitation({id, part.lease}));
    }
  }
}

}  // namespace parsyn::core
