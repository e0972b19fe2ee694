// A Job that outlives its process: what the journal keeps of it, and how it goes on from there.
#include <utility>

#include "core/job.hpp"

namespace parsyn::core {

Job::Job(JobSetup setup, JobSnapshot job, std::vector<SeatSnapshot> seats, std::vector<RoundRecord> records,
         std::optional<Time> deadline, Time round_opened)
    : Job(std::move(setup)) {
  state_ = job.state;
  reason_ = std::move(job.reason);
  stopping_ = job.stopping;
  steps_ = job.steps;
  round_ = job.round;
  attempt_ = job.attempt;
  failed_in_a_row_ = job.failed_in_a_row;
  failed_attempts_of_round_ = job.failed_attempts_of_round;
  partition_examples_ = std::move(job.partition_examples);
  partitions_ = std::move(job.partitions);
  notices_ = std::move(job.notices);
  advised_ = job.advised;
  initial_ = job.initial;
  evaluators_ = std::move(job.evaluators);
  final_state_ = job.final_state;
  final_reason_ = std::move(job.final_reason);
  records_ = std::move(records);
  round_opened_ = round_opened;
  if (state_ == JobState::evaluating) evaluation_deadline_ = deadline.value_or(Time{0});

  std::map<Id, Participant> participants;
  for (SeatSnapshot &kept : seats) {
    Seat &seat = seats_[kept.worker];
    seat.profile.id = kept.worker;
    seat.invited_rounds = kept.invited_rounds;
    seat.contributed_ever = kept.contributed_ever;
    seat.contributed_last = kept.contributed_last;
    seat.accepted = kept.accepted;
    if (kept.attempt != attempt_ || !kept.part) continue;
    participants[kept.worker] = std::move(*kept.part);
    if (kept.report) reports_[kept.worker] = std::move(*kept.report);
  }
  if (job.round_state) {
    const bool timed = round_options().timeout.has_value() && state_ == JobState::running;
    current_.emplace(round_options(), *job.round_state, timed ? deadline : std::nullopt,
                     std::move(participants));
  }
}

JobSnapshot Job::snapshot() const {
  JobSnapshot job;
  job.state = state_;
  job.reason = reason_;
  job.stopping = stopping_;
  job.steps = steps_;
  job.round = round_;
  job.attempt = attempt_;
  job.failed_in_a_row = failed_in_a_row_;
  job.failed_attempts_of_round = failed_attempts_of_round_;
  job.partition_examples = partition_examples_;
  job.partitions = partitions_;
  job.notices = notices_;
  job.advised = advised_;
  job.initial = initial_;
  job.evaluators = evaluators_;
  job.final_state = final_state_;
  job.final_reason = final_reason_;
  if (current_) job.round_state = current_->state();
  return job;
}

SeatSnapshot Job::seat(Id worker) const {
  SeatSnapshot kept;
  kept.worker = worker;
  kept.attempt = attempt_;
  if (const auto found = seats_.find(worker); found != seats_.end()) {
    kept.invited_rounds = found->second.invited_rounds;
    kept.contributed_ever = found->second.contributed_ever;
    kept.contributed_last = found->second.contributed_last;
    kept.accepted = found->second.accepted;
  }
  if (!current_) return kept;
  const auto part = current_->participants().find(worker);
  if (part == current_->participants().end()) return kept;
  kept.part = part->second;
  if (const auto report = reports_.find(worker); report != reports_.end()) kept.report = report->second;
  return kept;
}

JobActions Job::resume(const std::vector<WorkerProfile> &live, Time now) {
  JobActions actions;
  if (is_terminal(state_)) return actions;
  last_join_ = now;
  for (const WorkerProfile &worker : live) take_seat(worker, now);
  say(actions, "coordinator_restarted",
      state_ == JobState::running
          ? "the coordinator has started again; round " + std::to_string(round_) + " goes on"
          : "the coordinator has started again; the job goes on");
  switch (state_) {
    case JobState::waiting:
      reason_.clear();  // said again, for those that are live now
      try_to_open(now, actions);
      break;
    case JobState::running:
      resume_round(now, actions);
      break;
    case JobState::evaluating:
      for (auto &[id, failure] : evaluators_) {
        if (failure.empty() && seats_[id].live) actions.evaluate.push_back(invitation_of(id));
      }
      if (actions.evaluate.empty()) ask_to_evaluate(&Seat::contributed_ever, actions);
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
  const std::uint32_t attempt = attempt_;
  const auto goes_on = [&] { return state_ == JobState::running && attempt_ == attempt; };
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
  for (const Id id : candidates()) {
    if (goes_on() && !kept.contains(id)) drive_round(WorkerAvailable{invitation_of(id)}, now, actions);
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
