#include "core/job.hpp"

#include <algorithm>
#include <cmath>

#include "core/counted.hpp"
#include "core/evaluation_mean.hpp"
#include "core/random.hpp"

namespace parsyn::core {
namespace {

constexpr std::uint64_t kCohortSeedPart = 0x636F686F7274;  // "cohort"
constexpr std::uint64_t kFewExamples = 1'000;

}  // namespace

Job::Job(JobSetup setup) : setup_(std::move(setup)) {
  const JobConfig &config = setup_.config;
  if (config.is_distributed()) {
    num_rounds_ = config.distributed->num_rounds;
    kept_.steps = config.distributed->steps_per_round;
  } else {
    num_rounds_ = config.config.epochs;
  }
}

JobActions Job::start(const std::vector<WorkerProfile> &live, Time now) {
  JobActions actions;
  actions.changes.job = true;
  last_join_ = now;
  if (setup_.config.is_distributed()) {
    if (setup_.config.config.epochs != 1) {
      kept_.notices.push_back(
          "config.epochs is not used: a distributed job trains distributed.steps_per_round steps in each "
          "round");
    }
  } else {
    kept_.notices.push_back("the job is not distributed: one worker trains " + counted(num_rounds_, "epoch") +
                            ", each a round without a deadline");
  }
  if (!setup_.local_data && setup_.train_examples < kFewExamples) {
    kept_.notices.push_back("the dataset has only " + counted(setup_.train_examples, "training example") +
                            "; below 1000 a federated average is noisy");
  }
  if (setup_.validation_examples == 0)
    kept_.notices.push_back("the dataset has no validation examples: nothing is evaluated");
  say(actions, "job_created", "job " + std::to_string(setup_.id) + " (" + setup_.config.name + ") is created",
      {{"seed", std::to_string(setup_.config.seed.value_or(0))}});
  for (const std::string &notice : kept_.notices) say(actions, "notice", notice);
  for (const WorkerProfile &worker : live) take_seat(worker, now);
  try_to_open(now, actions);
  return with_wake(actions);
}

JobActions Job::step(const JobEvent &event, Time now) {
  JobActions actions;
  std::visit([&](const auto &what) { on(what, now, actions); }, event);
  return with_wake(actions);
}

JobActions &Job::with_wake(JobActions &actions) const {
  actions.wake_at = kept_.state == JobState::waiting ? join_window_ends_ : deadline();
  return actions;
}

std::optional<Time> Job::deadline() const {
  if (kept_.state == JobState::evaluating) return evaluation_deadline_;
  if (kept_.state == JobState::running && current_ && current_->state() == Round::State::open)
    return current_->deadline();
  return std::nullopt;
}

void Job::on(const WorkerOnline &event, Time now, JobActions &actions) {
  if (is_terminal(kept_.state)) return;
  if (!take_seat(event.worker, now)) return;
  const Id id = event.worker.id;
  if (kept_.state == JobState::waiting) return try_to_open(now, actions);
  if (!seats_[id].not_eligible.empty()) {
    // It came back as one that cannot do the job: the round must not wait for what its old session began.
    if (kept_.state == JobState::running) {
      drive_round(WorkerLost{id}, now, actions);
      give_on_partitions(now, actions);
    }
    return;
  }
  if (kept_.state == JobState::evaluating) {
    if (seats_[id].history.contributed_ever) {
      kept_.evaluators[id].clear();
      actions.changes.job = true;
      actions.evaluate.push_back(invitation_of(id));
    }
    return;
  }
  assign_partitions(actions);
  if (setup_.local_data || partition_of(id)) drive_round(WorkerAvailable{invitation_of(id)}, now, actions);
}

void Job::on(const WorkerOffline &event, Time now, JobActions &actions) {
  const auto found = seats_.find(event.worker);
  if (is_terminal(kept_.state) || found == seats_.end() || !found->second.live) return;
  found->second.live = false;
  if (kept_.state == JobState::running) {
    drive_round(WorkerLost{event.worker}, now, actions);
    give_on_partitions(now, actions);
  } else if (kept_.state == JobState::waiting) {
    try_to_open(now, actions);
  } else if (kept_.state == JobState::evaluating) {
    ask_others_to_evaluate(actions);
  }
}

void Job::on(const TaskFailed &event, Time now, JobActions &actions) {
  if (kept_.state != JobState::running || event.round != kept_.round) return;
  drive_round(WorkerFailed{event.worker, event.lease, event.reason}, now, actions);
}

void Job::on(const UpdateReported &event, Time now, JobActions &actions) {
  actions.answer = why_refused(event.report);
  if (actions.answer) return;
  drive_round(ReportArrived{event.report}, now, actions);
  if (actions.answer && actions.answer->verdict == ReportAnswer::Verdict::accepted) {
    UpdateReported &kept = reports_[event.report.worker] = event;
    for (std::optional<Evaluation> *evaluation : {&kept.received, &kept.own}) {
      if (*evaluation) *evaluation = without_impossible_accuracy(**evaluation);
    }
    seats_[event.report.worker].history.accepted = event.report;
    actions.changes.seats.insert(event.report.worker);
  }
}

ReportAnswer Job::answer_to(const ReportSummary &report, Time now) const {
  // Its answer was lost: that the round, or the job, has gone on since changes nothing about it. Not so for a
  // report that its task waits for: a round that is tried again may bring the same update once more.
  const auto seat = seats_.find(report.worker);
  if (seat != seats_.end() && seat->second.history.accepted == report) {
    return ReportAnswer{ReportAnswer::Verdict::duplicate, {}, "this report is already counted"};
  }
  if (auto refusal = why_refused(report)) return *refusal;
  Round copy = *current_;
  return copy.step(ReportArrived{report}, now).answer.value_or(ReportAnswer{});
}

std::optional<ReportAnswer> Job::why_refused(const ReportSummary &report) const {
  const auto refuse = [](std::string code, std::string reason) {
    return ReportAnswer{ReportAnswer::Verdict::refused, std::move(code), std::move(reason)};
  };
  if (is_terminal(kept_.state)) {
    return refuse("job_ended", "job " + std::to_string(setup_.id) + " is " +
                                   std::string(job_state_name(kept_.state)) +
                                   ": drop the update and ask for a new task");
  }
  if (!current_ || kept_.state != JobState::running) {
    const bool tried_again = !records_.empty() && !records_.back().succeeded;
    const std::uint32_t next = std::clamp(tried_again ? kept_.round : kept_.round + 1, 1U, num_rounds_);
    return refuse("wrong_round",
                  "no round is open; the next one is round " + std::to_string(next) + ": ask for a new task");
  }
  const bool ours = seats_.contains(report.worker) && report.round == kept_.round;
  if (ours && setup_.local_data && report.num_examples > setup_.examples_per_worker_max) {
    return refuse("too_many_examples", "the report states " + counted(report.num_examples, "example") +
                                           "; at most " + std::to_string(setup_.examples_per_worker_max) +
                                           " are taken");
  }
  if (ours && partition_of(report.worker) && report.num_examples != 0 &&
      report.num_examples != examples_of(report.worker)) {
    return refuse("wrong_examples", "the report states " + counted(report.num_examples, "example") +
                                        "; the worker's partition has " +
                                        std::to_string(examples_of(report.worker)) +
                                        ": ask for the task again");
  }
  return std::nullopt;
}

void Job::on(const UpdateVerdict &event, Time now, JobActions &actions) {
  if (kept_.state != JobState::running || event.attempt != kept_.attempt) return;
  drive_round(UpdateChecked{event.worker, event.refusal}, now, actions);
}

void Job::on(const PartitionsMade &event, Time now, JobActions &actions) {
  if (kept_.state != JobState::waiting || !partitioning_) return;
  partitioning_ = false;
  kept_.partition_examples = event.examples;
  actions.changes.job = true;
  assign_partitions(actions);
  try_to_open(now, actions);
}

void Job::on(const StopRequested &, Time now, JobActions &actions) {
  if (is_terminal(kept_.state) || kept_.stopping) return;
  kept_.stopping = true;
  actions.changes.job = true;
  if (kept_.state == JobState::waiting)
    return finish_training(JobState::stopped, "stopped on request", now, actions);
  kept_.reason =
      kept_.state == JobState::running ? "stopping after round " + std::to_string(kept_.round) : kept_.reason;
  say(actions, "job_stopping", "the job stops after the current round");
}

void Job::on(const CancelRequested &, Time, JobActions &actions) {
  if (!is_terminal(kept_.state)) end(JobState::cancelled, "cancelled on request", actions);
}

void Job::on(const DriverFailed &event, Time, JobActions &actions) {
  if (!is_terminal(kept_.state)) end(JobState::failed, event.reason, actions);
}

void Job::on(const HeldUp &event, Time now, JobActions &actions) {
  if (!deadline()) return;
  actions.changes.job = true;
  if (kept_.state == JobState::evaluating) {
    evaluation_deadline_ += event.duration;
  } else {
    drive_round(event, now, actions);
  }
}

void Job::on(const FinalEvaluation &event, Time, JobActions &actions) {
  if (kept_.state != JobState::evaluating || !kept_.evaluators.contains(event.worker)) return;
  std::string failure = event.failure.empty() ? "no answer" : event.failure;
  if (event.evaluation) {
    record_final(without_impossible_accuracy(*event.evaluation), actions);
    if (std::isfinite(event.evaluation->loss)) return end(kept_.final_state, kept_.final_reason, actions);
    // One worker's NaN is told, but the others may know better.
    failure = "its loss is not finite";
  }
  kept_.evaluators[event.worker] = std::move(failure);
  actions.changes.job = true;
  ask_others_to_evaluate(actions);
  const bool all_failed =
      std::ranges::none_of(kept_.evaluators, [](const auto &entry) { return entry.second.empty(); });
  if (!all_failed) return;
  std::string reasons;
  for (const auto &[id, why] : kept_.evaluators) reasons += "; worker " + std::to_string(id) + ": " + why;
  end_without_finite_loss(reasons, actions);
}

void Job::record_final(const Evaluation &evaluation, JobActions &actions) {
  RoundRecord &record = *last_succeeded();
  record.validation = evaluation;
  actions.changes.rounds.insert(record.round);
  std::vector<std::pair<std::string, EventValue>> fields{{"round", static_cast<std::int64_t>(record.round)},
                                                         {"loss", evaluation.loss}};
  std::string text = "the final model has validation loss " + std::to_string(evaluation.loss);
  if (evaluation.accuracy) {
    fields.emplace_back("accuracy", *evaluation.accuracy);
    text += " and accuracy " + std::to_string(*evaluation.accuracy);
  }
  say(actions, "validation", std::move(text), std::move(fields));
}

void Job::end_without_finite_loss(const std::string &why, JobActions &actions) {
  std::string reason = kept_.final_reason;
  if (!last_succeeded()->validation) reason += "; the final model was not evaluated" + why;
  end(kept_.final_state, std::move(reason), actions);
}

void Job::on(const Tick &, Time now, JobActions &actions) {
  if (kept_.state == JobState::running) return drive_round(TimePassed{}, now, actions);
  if (kept_.state == JobState::waiting) return try_to_open(now, actions);
  if (kept_.state == JobState::evaluating && now >= evaluation_deadline_) {
    end_without_finite_loss(": no worker answered in time", actions);
  }
}

bool Job::take_seat(const WorkerProfile &profile, Time now) {
  if (!is_selected(setup_.config, profile)) return false;
  Seat &seat = seats_[profile.id];
  const bool could_take_part = seat.live && seat.not_eligible.empty();
  seat.profile = profile;
  seat.live = true;
  seat.not_eligible = why_not_eligible(setup_, profile);
  if (seat.not_eligible.empty() && setup_.local_data && examples_of(profile.id) == 0) {
    seat.not_eligible = "it has no examples of " + setup_.dataset_name;
  }
  // One that cannot take part holds nobody up, however often it comes.
  if (!could_take_part && seat.not_eligible.empty()) last_join_ = now;
  return true;
}

std::vector<Id> Job::candidates() const {
  std::vector<Id> ids;
  for (const auto &[id, seat] : seats_) {
    if (!seat.live || !seat.not_eligible.empty()) continue;
    if (setup_.local_data || kept_.partition_examples.empty() || partition_of(id)) ids.push_back(id);
  }
  return ids;
}

void Job::wait_for(std::string reason, JobActions &actions) {
  if (reason == kept_.reason) return;
  kept_.reason = std::move(reason);
  actions.changes.job = true;
  say(actions, "job_waiting", kept_.reason);
}

void Job::try_to_open(Time now, JobActions &actions) {
  if (kept_.state != JobState::waiting || partitioning_) return;
  join_window_ends_.reset();
  assign_partitions(actions);
  const std::vector<Id> ready = candidates();
  if (ready.size() < min_workers()) {
    std::string reason = "waiting for workers: " + std::to_string(ready.size()) + " of at least " +
                         std::to_string(min_workers()) + " are live and can take part";
    for (const auto &[id, seat] : seats_) {
      if (seat.live && !seat.not_eligible.empty()) {
        reason += "; worker " + std::to_string(id) + " cannot: " + seat.not_eligible;
      }
    }
    return wait_for(std::move(reason), actions);
  }
  const bool may_join = setup_.config.is_distributed() && kept_.round == 0 && ready.size() < max_workers() &&
                        setup_.config.worker_selection.mode == SelectionMode::automatic;
  if (may_join && now < last_join_ + setup_.join_window) {
    wait_for("waiting a moment for more workers to join: " + std::to_string(ready.size()) + " of at most " +
                 std::to_string(max_workers()) + " are live",
             actions);
    join_window_ends_ = last_join_ + setup_.join_window;
    return;
  }
  if (!setup_.local_data && kept_.partition_examples.empty()) {
    const WorkerSelection &selection = setup_.config.worker_selection;
    std::uint64_t count = keeps_partitions_by_id()
                              ? selection.worker_ids.size() + selection.parsyn_worker_ids.size()
                          : setup_.config.is_distributed() ? ready.size()
                                                           : 1;
    count = std::min(count, setup_.train_examples);
    partitioning_ = true;
    actions.make_partitions = static_cast<std::uint32_t>(count);
    return wait_for("dividing the data into " + counted(count, "partition"), actions);
  }
  open_round(now, actions);
}

bool Job::keeps_partitions_by_id() const {
  return setup_.config.is_distributed() && setup_.config.worker_selection.mode != SelectionMode::automatic;
}

std::optional<std::uint32_t> Job::partition_of(Id worker) const {
  const auto found = kept_.partitions.find(worker);
  return found == kept_.partitions.end() ? std::nullopt : std::optional(found->second);
}

bool Job::has_live_owner(std::uint32_t partition) const {
  return std::ranges::any_of(kept_.partitions, [&](const auto &entry) {
    if (entry.second != partition) return false;
    const auto found = seats_.find(entry.first);
    if (found != seats_.end() && found->second.live && found->second.not_eligible.empty()) return true;
    if (!current_ || kept_.state != JobState::running) return false;
    // An update that is already there counts: its examples must not be trained twice in one round.
    const auto part = current_->participants().find(entry.first);
    return part != current_->participants().end() && part->second.state != ParticipantState::training &&
           part->second.state != ParticipantState::failed && part->second.state != ParticipantState::lost;
  });
}

void Job::assign_partitions(JobActions &actions) {
  if (setup_.local_data || kept_.partition_examples.empty()) return;
  const auto count = static_cast<std::uint32_t>(kept_.partition_examples.size());
  if (keeps_partitions_by_id()) {
    std::vector<Id> ids = setup_.config.worker_selection.worker_ids;
    ids.insert(ids.end(), setup_.config.worker_selection.parsyn_worker_ids.begin(),
               setup_.config.worker_selection.parsyn_worker_ids.end());
    std::ranges::sort(ids);
    for (std::uint32_t i = 0; i < count && i < ids.size(); ++i) {
      if (kept_.partitions.try_emplace(ids[i], i).second) actions.changes.job = true;
    }
    return;
  }
  for (const auto &[id, seat] : seats_) {
    if (!seat.live || !seat.not_eligible.empty() || partition_of(id)) continue;
    for (std::uint32_t partition = 0; partition < count; ++partition) {
      if (has_live_owner(partition)) continue;
      std::erase_if(kept_.partitions, [&](const auto &entry) { return entry.second == partition; });
      kept_.partitions[id] = partition;
      actions.changes.job = true;
      break;
    }
  }
}

void Job::give_on_partitions(Time now, JobActions &actions) {
  if (setup_.local_data || kept_.state != JobState::running) return;
  std::vector<Id> without;
  for (const auto &[id, seat] : seats_) {
    if (seat.live && seat.not_eligible.empty() && !partition_of(id)) without.push_back(id);
  }
  assign_partitions(actions);
  for (const Id id : without) {
    if (kept_.state == JobState::running && partition_of(id))
      drive_round(WorkerAvailable{invitation_of(id)}, now, actions);
  }
}

std::uint64_t Job::examples_of(Id worker) const {
  if (!setup_.local_data) {
    const auto partition = partition_of(worker);
    return partition ? kept_.partition_examples[*partition] : 0;
  }
  const auto found = seats_.find(worker);
  if (found == seats_.end()) return 0;
  const auto &own = found->second.profile.local_datasets;
  const auto data = std::ranges::find(own, setup_.dataset_name, &LocalDataset::name);
  return data == own.end() ? 0 : data->num_examples;
}

Invitation Job::invitation_of(Id worker) const { return {worker, seats_.at(worker).profile.lease}; }

JobInvitation Job::job_invitation(const Invitation &invitation) const {
  return {invitation.worker, invitation.lease, partition_of(invitation.worker),
          examples_of(invitation.worker)};
}

std::uint32_t Job::min_workers() const {
  return setup_.config.is_distributed() ? setup_.config.distributed->min_workers : 1;
}
std::uint32_t Job::max_workers() const {
  return setup_.config.is_distributed() ? setup_.config.distributed->max_workers : 1;
}

void Job::open_round(Time now, JobActions &actions) {
  if (kept_.round == 0 ||
      (!records_.empty() && records_.back().round == kept_.round && records_.back().succeeded)) {
    ++kept_.round;
    kept_.failed_attempts_of_round = 0;
    if (kept_.round == 1) say_how_data_is_spread(actions);
  }
  ++kept_.attempt;
  kept_.state = JobState::running;
  kept_.closed.clear();
  reports_.clear();
  actions.changes.job = true;

  current_.emplace(round_options());
  round_opened_ = now;

  std::vector<std::pair<Id, std::uint32_t>> ready;
  for (const Id id : candidates()) ready.emplace_back(id, seats_[id].history.invited_rounds);
  const Cohort cohort = choose_cohort(
      ready, max_workers(), derive_seed({setup_.config.seed.value_or(0), kCohortSeedPart, kept_.attempt}));
  if (!setup_.config.is_distributed()) {
    // One epoch of the one worker's data.
    const std::uint64_t examples = std::max<std::uint64_t>(1, examples_of(cohort.invited.front()));
    const std::uint64_t batch = std::min<std::uint64_t>(setup_.config.config.batch_size, examples);
    kept_.steps = (examples + batch - 1) / batch;
  }
  RoundOpened opened;
  for (const Id id : cohort.invited) opened.cohort.push_back(invitation_of(id));
  for (const Id id : cohort.standby) opened.standby.push_back(invitation_of(id));
  kept_.reason = "round " + std::to_string(kept_.round) + " of " + std::to_string(num_rounds_) + " is open";
  say(actions, "round_opened",
      kept_.reason + " with " + counted(opened.cohort.size(), "worker") +
          (kept_.failed_attempts_of_round > 0
               ? ", tried again after " + counted(kept_.failed_attempts_of_round, "failure")
               : ""),
      {{"round", static_cast<std::int64_t>(kept_.round)},
       {"workers", static_cast<std::int64_t>(opened.cohort.size())}});
  drive_round(opened, now, actions);
}

RoundOptions Job::round_options() const {
  RoundOptions options{
      .number = kept_.round, .min_workers = min_workers(), .max_workers = max_workers(), .timeout = {}};
  if (setup_.config.is_distributed())
    options.timeout = std::chrono::seconds(setup_.config.distributed->aggregation_timeout);
  return options;
}

void Job::drive_round(const RoundEvent &event, Time now, JobActions &actions) {
  if (!current_) return;
  const Round::State before = current_->state();
  RoundActions round = current_->step(event, now);
  if (current_->state() != before) actions.changes.job = true;
  if (!round.closed.empty()) kept_.closed = std::move(round.closed);
  actions.changes.seats.insert(round.changed.begin(), round.changed.end());
  if (round.answer) actions.answer = std::move(round.answer);
  // The opening and the end of a round are said in the job's own words.
  if (std::holds_alternative<RoundOpened>(event) && !round.reasons.empty())
    round.reasons.erase(round.reasons.begin());
  if (round.outcome && !round.reasons.empty()) round.reasons.pop_back();
  for (std::string &reason : round.reasons) {
    say(actions, "round_decision", std::move(reason), {{"round", static_cast<std::int64_t>(kept_.round)}});
  }
  for (const Invitation &invitation : round.invite) {
    ++seats_[invitation.worker].history.invited_rounds;
    actions.changes.seats.insert(invitation.worker);
    actions.invite.push_back(job_invitation(invitation));
  }
  const auto append = [](auto &to, const auto &from) { to.insert(to.end(), from.begin(), from.end()); };
  append(actions.check, round.check);
  append(actions.aggregate, round.aggregate);
  append(actions.withdraw, round.withdraw);
  if (round.outcome) round_ended(*round.outcome, now, actions);
}

void Job::end(JobState state, std::string reason, JobActions &actions) {
  kept_.state = state;
  kept_.reason = std::move(reason);
  partitioning_ = false;
  actions.changes.job = true;
  actions.ended = true;
  actions.withdraw.clear();
  for (const auto &[id, seat] : seats_) actions.withdraw.push_back(id);
  // Work that an earlier step of this event asked for is void.
  actions.invite.clear();
  actions.check.clear();
  actions.aggregate.clear();
  actions.evaluate.clear();
  actions.make_partitions.reset();
  say(actions, "job_" + std::string(job_state_name(state)),
      "the job is " + std::string(job_state_name(state)) + ": " + kept_.reason);
}

void Job::say(JobActions &actions, std::string type, std::string text,
              std::vector<std::pair<std::string, EventValue>> fields) const {
  actions.notices.push_back({std::move(type), std::move(text), std::move(fields)});
}

}  // namespace parsyn::core
