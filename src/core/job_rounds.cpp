// What a Job does when a round ends: record it, judge the model, go on or finish.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/counted.hpp"
#include "core/evaluation_mean.hpp"
#include "core/job.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::core {
namespace {

constexpr std::uint32_t kAdviseAfterRounds = 5;

/// Only such a loss can be the best one.
bool is_finite_loss(const RoundRecord &record) {
  return record.validation && std::isfinite(record.validation->loss);
}

}  // namespace

void Job::round_ended(const RoundOutcome &outcome, Time now, JobActions &actions) {
  actions.changes.job = true;
  actions.discard = RoundAttempt{kept_.round, kept_.attempt};
  if (!outcome.succeeded) {
    ++kept_.failed_in_a_row;
    ++kept_.failed_attempts_of_round;
    record_round(outcome, now, actions);
    say(actions, "round_failed", "round " + std::to_string(kept_.round) + " failed: " + outcome.reason,
        {{"round", static_cast<std::int64_t>(kept_.round)},
         {"failed_in_a_row", static_cast<std::int64_t>(kept_.failed_in_a_row)}});
    if (kept_.stopping)
      return finish_training(JobState::stopped,
                             "stopped on request after round " + std::to_string(kept_.round) + " failed", now,
                             actions);
    const std::uint32_t tolerance =
        std::max(1U, setup_.config.is_distributed() ? setup_.config.distributed->fault_tolerance : 1U);
    if (kept_.failed_in_a_row >= tolerance) {
      return end(JobState::failed,
                 counted(kept_.failed_in_a_row, "failed round") +
                     (kept_.failed_in_a_row == 1 ? "" : " in a row") + " (fault_tolerance " +
                     std::to_string(tolerance) + "); round " + std::to_string(kept_.round) + ": " +
                     outcome.reason,
                 actions);
    }
    kept_.state = JobState::waiting;
    return try_to_open(now, actions);
  }

  kept_.failed_in_a_row = 0;
  for (auto &[id, seat] : seats_) {
    const auto part = current_->participants().find(id);
    const bool contributed =
        part != current_->participants().end() && part->second.state == ParticipantState::valid;
    if (seat.history.contributed_last != contributed) actions.changes.seats.insert(id);
    seat.history.contributed_last = contributed;
    seat.history.contributed_ever = seat.history.contributed_ever || contributed;
  }
  const RoundRecord &record = records_.back();
  say(actions, "round_completed",
      "round " + std::to_string(kept_.round) + " of " + std::to_string(num_rounds_) +
          " is complete: " + outcome.reason,
      {{"round", static_cast<std::int64_t>(kept_.round)},
       {"num_rounds", static_cast<std::int64_t>(num_rounds_)},
       {"train_loss", record.train_loss.value_or(std::numeric_limits<double>::quiet_NaN())},
       {"examples", static_cast<std::int64_t>(record.examples)},
       {"seconds", record.seconds},
       {"sha256", record.model_sha256}});
  take_validation_of_previous(actions);

  if (kept_.round >= num_rounds_) {
    return finish_training(JobState::completed,
                           num_rounds_ == 1 ? "its only round is done"
                                            : "all " + std::to_string(num_rounds_) + " rounds are done",
                           now, actions);
  }
  if (kept_.stopping)
    return finish_training(JobState::stopped, "stopped on request after round " + std::to_string(kept_.round),
                           now, actions);
  const auto &early = setup_.config.config.early_stopping;
  if (early && rounds_without_improvement(early->min_delta) >= early->patience) {
    return finish_training(JobState::completed,
                           "stopped early after round " + std::to_string(kept_.round) +
                               ": the validation loss has not improved for " +
                               counted(early->patience, "round"),
                           now, actions);
  }
  if (!kept_.advised && rounds_without_improvement(0) >= kAdviseAfterRounds) {
    kept_.advised = true;
    kept_.notices.push_back("the validation loss has not improved for " + std::to_string(kAdviseAfterRounds) +
                            " rounds (best: round " + std::to_string(best_round().value_or(0)) +
                            "): consider stopping the job");
    say(actions, "advice", kept_.notices.back());
  }
  kept_.state = JobState::waiting;
  try_to_open(now, actions);
}

void Job::on(const RoundAveraged &event, Time now, JobActions &actions) {
  if (kept_.state != JobState::running || event.attempt != kept_.attempt ||
      current_->state() != Round::State::aggregating)
    return;
  if (event.failure.empty()) {
    record_round({true, kept_.closed}, now, actions);
    records_.back().model_key = event.key;
    records_.back().model_sha256 = event.sha256;
    records_.back().model_bytes = event.bytes;
  }
  drive_round(AggregationFinished{event.failure}, now, actions);
}

void Job::record_round(const RoundOutcome &outcome, Time now, JobActions &actions) {
  actions.changes.rounds.insert(kept_.round);
  if (records_.empty() || records_.back().round != kept_.round) records_.emplace_back();
  RoundRecord &record = records_.back();
  record = RoundRecord{};
  record.round = kept_.round;
  record.failed_attempts = kept_.failed_attempts_of_round;
  record.succeeded = outcome.succeeded;
  record.reason = outcome.reason;
  record.seconds = std::chrono::duration<double>(now - round_opened_).count();
  if (setup_.local_data) {
    for (const auto &[id, seat] : seats_) {
      if (seat.live && seat.not_eligible.empty()) record.examples_total += examples_of(id);
    }
  }
  for (const std::uint64_t examples : kept_.partition_examples) record.examples_total += examples;
  FiniteMean loss;
  for (const auto &[id, participant] : current_->participants()) {
    Contribution contribution;
    contribution.worker_id = id;
    contribution.state = participant_state_name(participant.state);
    contribution.reason = participant.reason;
    contribution.num_examples = participant.report.num_examples;
    if (const auto report = reports_.find(id); report != reports_.end()) {
      contribution.train_loss = report->second.train_loss;
      contribution.received = report->second.received;
      contribution.own = report->second.own;
    }
    if (participant.state == ParticipantState::valid) {
      record.examples += participant.report.num_examples;
      if (contribution.train_loss) loss.add(*contribution.train_loss, participant.report.num_examples);
    }
    record.contributions.push_back(std::move(contribution));
  }
  record.train_loss = loss.value();
}

void Job::take_validation_of_previous(JobActions &actions) {
  std::vector<Evaluation> measured;
  for (const Contribution &contribution : records_.back().contributions) {
    const bool counts = contribution.state == participant_state_name(ParticipantState::valid) ||
                        contribution.state == participant_state_name(ParticipantState::empty);
    if (counts && contribution.received) measured.push_back(*contribution.received);
  }
  const auto mean = mean_of(measured, setup_.validation_examples);
  if (!mean) return;
  const std::uint32_t round = kept_.round - 1;
  if (round == 0) {
    kept_.initial = mean;
    actions.changes.job = true;
  } else {
    records_[round - 1].validation = mean;
    actions.changes.rounds.insert(round);
  }
  std::vector<std::pair<std::string, EventValue>> fields{{"round", static_cast<std::int64_t>(round)},
                                                         {"loss", mean->loss}};
  std::string text =
      "the model after round " + std::to_string(round) + " has validation loss " + std::to_string(mean->loss);
  if (mean->accuracy) {
    fields.emplace_back("accuracy", *mean->accuracy);
    text += " and accuracy " + std::to_string(*mean->accuracy);
  }
  say(actions, "validation", std::move(text), std::move(fields));
}

std::uint32_t Job::rounds_without_improvement(double min_delta) const {
  double best = std::numeric_limits<double>::infinity();
  std::uint32_t since = 0;
  for (const RoundRecord &record : records_) {
    if (!record.validation) continue;
    if (is_finite_loss(record) && record.validation->loss < best - min_delta) {
      best = record.validation->loss;
      since = 0;
    } else {
      ++since;
    }
  }
  return since;
}

std::optional<std::uint32_t> Job::best_round() const {
  std::optional<std::uint32_t> best;
  double best_loss = std::numeric_limits<double>::infinity();
  for (const RoundRecord &record : records_) {
    if (record.succeeded && is_finite_loss(record) && record.validation->loss < best_loss) {
      best = record.round;
      best_loss = record.validation->loss;
    }
  }
  return best;
}

std::optional<Evaluation> Job::final_validation() const {
  if (!is_terminal(kept_.state)) return std::nullopt;
  const RoundRecord *last = last_succeeded();
  return last == nullptr ? std::nullopt : last->validation;
}

const RoundRecord *Job::last_succeeded() const {
  // Only the last record may be of a round that has not succeeded.
  if (!records_.empty() && records_.back().succeeded) return &records_.back();
  return records_.size() > 1 ? &records_[records_.size() - 2] : nullptr;
}

RoundRecord *Job::last_succeeded() {
  const RoundRecord *last = std::as_const(*this).last_succeeded();
  return last == nullptr ? nullptr : &records_[static_cast<std::size_t>(last - records_.data())];
}

void Job::say_how_data_is_spread(JobActions &actions) {
  std::uint64_t total = 0;
  std::uint64_t most = 0;
  Id most_worker = 0;
  const std::vector<Id> ready = candidates();
  for (const Id id : ready) {
    total += examples_of(id);
    if (examples_of(id) > most) {
      most = examples_of(id);
      most_worker = id;
    }
  }
  const auto notice = [&](std::string text) {
    kept_.notices.push_back(std::move(text));
    say(actions, "notice", kept_.notices.back());
  };
  if (setup_.local_data && total < 1'000) {
    notice("the workers have only " + counted(total, "training example") +
           " together; below 1000 a federated average is noisy");
  }
  if (setup_.config.is_distributed() && ready.size() > 1 &&
      static_cast<double>(most) >= 0.9 * static_cast<double>(total)) {
    notice("worker " + std::to_string(most_worker) + " holds " + std::to_string(most) + " of " +
           counted(total, "example") + ": the average is nearly its model alone");
  }
}

void Job::finish_training(JobState state, std::string reason, Time now, JobActions &actions) {
  kept_.final_state = state;
  kept_.final_reason = std::move(reason);
  // Before the first round's average there is nothing to evaluate.
  if (last_succeeded() == nullptr) return end(state, kept_.final_reason, actions);
  if (setup_.validation_examples == 0) {
    return end(state,
               kept_.final_reason + "; the model was not evaluated: the dataset has no validation examples",
               actions);
  }
  kept_.evaluators.clear();
  ask_to_evaluate(&SeatHistory::contributed_last, actions);
  if (kept_.evaluators.empty()) ask_to_evaluate(&SeatHistory::contributed_ever, actions);
  if (kept_.evaluators.empty()) {
    return end(state,
               kept_.final_reason + "; the final model was not evaluated: no worker that took part is live",
               actions);
  }
  kept_.state = JobState::evaluating;
  kept_.reason = "evaluating the final model";
  std::chrono::milliseconds timeout = limits::kEvaluationTimeout;
  if (setup_.config.is_distributed()) {
    timeout = std::min<std::chrono::milliseconds>(
        timeout, std::chrono::seconds(setup_.config.distributed->aggregation_timeout));
  }
  evaluation_deadline_ = now + timeout;
  say(actions, "job_evaluating", kept_.reason);
}

void Job::ask_to_evaluate(bool SeatHistory::*took_part, JobActions &actions) {
  for (const auto &[id, seat] : seats_) {
    if (!seat.live || !(seat.history.*took_part) || !kept_.evaluators.try_emplace(id).second) continue;
    actions.changes.job = true;
    actions.evaluate.push_back(invitation_of(id));
  }
}

void Job::ask_others_to_evaluate(JobActions &actions) {
  const bool expects_one = std::ranges::any_of(
      kept_.evaluators, [&](const auto &asked) { return asked.second.empty() && seats_[asked.first].live; });
  if (!expects_one) ask_to_evaluate(&SeatHistory::contributed_ever, actions);
}

std::vector<WorkerProgress> Job::worker_states() const {
  std::vector<WorkerProgress> states;
  for (const auto &[id, seat] : seats_) {
    WorkerProgress progress;
    progress.worker_id = id;
    progress.live = seat.live;
    progress.partition = partition_of(id);
    progress.num_examples = examples_of(id);
    progress.state = seat.live ? "standby" : "away";
    if (seat.live && !seat.not_eligible.empty()) {
      progress.state = "not_eligible";
      progress.reason = seat.not_eligible;
    } else if (current_) {
      const auto part = current_->participants().find(id);
      if (part != current_->participants().end()) {
        progress.state = participant_state_name(part->second.state);
        progress.reason = part->second.reason;
      }
    }
    states.push_back(std::move(progress));
  }
  return states;
}

}  // namespace parsyn::core
