#include "parsyn/round.hpp"

#include <algorithm>

#include "core/counted.hpp"

namespace parsyn {
namespace {

using core::counted;

std::string worker_text(Id worker) { return "worker " + std::to_string(worker); }

std::string of_text(std::uint32_t have, std::uint32_t need) {
  return std::to_string(have) + " of at least " + std::to_string(need);
}

ReportAnswer refuse(std::string code, std::string reason) {
  return {ReportAnswer::Verdict::refused, std::move(code), std::move(reason)};
}

}  // namespace

std::string_view participant_state_name(ParticipantState state) {
  switch (state) {
    case ParticipantState::training:
      return "training";
    case ParticipantState::reported:
      return "reported";
    case ParticipantState::valid:
      return "valid";
    case ParticipantState::empty:
      return "empty";
    case ParticipantState::refused:
      return "refused";
    case ParticipantState::failed:
      return "failed";
    case ParticipantState::lost:
      return "lost";
  }
  return "lost";
}

RoundActions Round::step(const RoundEvent &event, Time now) {
  RoundActions actions;
  std::visit([&](const auto &what) { on(what, now, actions); }, event);
  if (state_ == State::open || state_ == State::closing) decide(now, actions);
  if (state_ == State::open) actions.wake_at = deadline_;
  return actions;
}

void Round::on(const RoundOpened &event, Time now, RoundActions &actions) {
  if (state_ != State::fresh) return;
  state_ = State::open;
  if (options_.timeout) deadline_ = now + *options_.timeout;
  for (const Invitation &invitation : event.cohort) {
    participants_[invitation.worker].lease = invitation.lease;
    actions.changed.push_back(invitation.worker);
    actions.invite.push_back(invitation);
  }
  standby_ = event.standby;
  std::string reason =
      "round " + std::to_string(options_.number) + " opened with " + counted(event.cohort.size(), "worker");
  if (options_.timeout)
    reason += "; its deadline is in " + std::to_string(options_.timeout->count() / 1000) + " s";
  actions.reasons.push_back(std::move(reason));
}

void Round::on(const WorkerAvailable &event, Time, RoundActions &actions) {
  if (state_ != State::open) return;
  const Invitation &worker = event.worker;
  std::erase_if(standby_, [&](const Invitation &other) { return other.worker == worker.worker; });
  const auto found = participants_.find(worker.worker);
  if (found == participants_.end()) {
    standby_.push_back(worker);  // decide() gives it a place where there is one
    return;
  }
  Participant &participant = found->second;
  if (participant.lease == worker.lease && participant.state != ParticipantState::lost) return;
  switch (participant.state) {
    case ParticipantState::training:
      // It came back under a new lease before the old one had ended: the same place, the work anew.
      participant.lease = worker.lease;
      actions.changed.push_back(worker.worker);
      actions.invite.push_back(worker);
      actions.reasons.push_back(worker_text(worker.worker) +
                                " came back with a new session and starts the round anew");
      break;
    case ParticipantState::lost:
    case ParticipantState::failed:
      standby_.push_back(worker);
      break;
    case ParticipantState::reported:
    case ParticipantState::valid:
    case ParticipantState::empty:
    case ParticipantState::refused:
      break;  // Its report stands, under whichever lease it was made.
  }
}

void Round::on(const WorkerLost &event, Time, RoundActions &actions) {
  std::erase_if(standby_, [&](const Invitation &other) { return other.worker == event.worker; });
  const auto found = participants_.find(event.worker);
  if (found == participants_.end() || found->second.state != ParticipantState::training) return;
  found->second.state = ParticipantState::lost;
  found->second.reason = "its lease ended before it reported";
  actions.changed.push_back(event.worker);
  actions.reasons.push_back(worker_text(event.worker) + " is lost: its lease ended before it reported");
}

void Round::on(const WorkerFailed &event, Time, RoundActions &actions) {
  const auto found = participants_.find(event.worker);
  if (found == participants_.end() || found->second.state != ParticipantState::training ||
      found->second.lease != event.lease) {
    return;
  }
  found->second.state = ParticipantState::failed;
  found->second.reason = event.reason;
  actions.changed.push_back(event.worker);
  actions.reasons.push_back(worker_text(event.worker) + " failed: " + event.reason);
}

void Round::on(const ReportArrived &event, Time now, RoundActions &actions) {
  const ReportSummary &report = event.report;
  if (report.round != options_.number) {
    actions.answer = refuse("wrong_round", "the report is for round " + std::to_string(report.round) +
                                               "; the current round is " + std::to_string(options_.number) +
                                               ": ask for a new task and start from its weights");
    return;
  }
  const auto found = participants_.find(report.worker);
  if (found == participants_.end()) {
    actions.answer = refuse("not_invited", worker_text(report.worker) + " was not invited to round " +
                                               std::to_string(options_.number) + ": ask for a new task");
    return;
  }
  Participant &participant = found->second;
  const bool has_report =
      participant.state == ParticipantState::reported || participant.state == ParticipantState::valid ||
      participant.state == ParticipantState::empty || participant.state == ParticipantState::refused;
  // A repeat is recognised in every state of the round, so that a lost answer can be asked for again.
  if (has_report) {
    if (participant.report == report) {
      actions.answer = ReportAnswer{ReportAnswer::Verdict::duplicate, {}, "this report is already counted"};
    } else {
      actions.answer =
          refuse("conflicting_report", worker_text(report.worker) + " has already reported round " +
                                           std::to_string(options_.number) +
                                           " with another update; the first one stands: ask for a new task");
    }
    return;
  }
  if (state_ != State::open || (deadline_ && now >= *deadline_)) {
    actions.answer = refuse("round_closed", "round " + std::to_string(options_.number) +
                                                " is closed: ask for a new task and start from its weights");
    return;
  }
  if (report.lease != participant.lease || participant.state == ParticipantState::lost) {
    actions.answer = refuse("lease_expired",
                            "the lease under which this report was made has ended: open a session "
                            "and ask for a new task");
    return;
  }
  if (participant.state == ParticipantState::failed) {
    actions.answer =
        refuse("already_failed", worker_text(report.worker) + " has answered that it failed in round " +
                                     std::to_string(options_.number) + ": ask for a new task");
    return;
  }
  participant.report = report;
  participant.state = ParticipantState::reported;
  actions.changed.push_back(report.worker);
  actions.answer = ReportAnswer{ReportAnswer::Verdict::accepted, {}, {}};
  actions.check.push_back(report.worker);
  actions.reasons.push_back(worker_text(report.worker) + " reported " +
                            counted(report.num_examples, "example"));
}

void Round::on(const UpdateChecked &event, Time, RoundActions &actions) {
  const auto found = participants_.find(event.worker);
  if (found == participants_.end() || found->second.state != ParticipantState::reported) return;
  Participant &participant = found->second;
  actions.changed.push_back(event.worker);
  if (!event.refusal.empty()) {
    participant.state = ParticipantState::refused;
    participant.reason = event.refusal;
    actions.reasons.push_back("the update of " + worker_text(event.worker) + " is refused: " + event.refusal);
  } else if (participant.report.num_examples == 0) {
    participant.state = ParticipantState::empty;
    participant.reason = "it reported 0 examples";
  } else {
    participant.state = ParticipantState::valid;
  }
}

void Round::on(const AggregationFinished &event, Time, RoundActions &actions) {
  if (state_ != State::aggregating) return;
  if (!event.failure.empty()) {
    end(false, "the updates could not be averaged: " + event.failure, actions);
    return;
  }
  end(true, "averaged the updates of " + counted(count(ParticipantState::valid), "worker"), actions);
}

void Round::on(const HeldUp &event, Time, RoundActions &actions) {
  if (state_ != State::open || !deadline_) return;
  *deadline_ += event.duration;
  actions.reasons.push_back("no report could be taken for " + std::to_string(event.duration.count() / 1000) +
                            " s: the deadline of round " + std::to_string(options_.number) +
                            " is as much later");
}

void Round::on(const TimePassed &, Time, RoundActions &) {}  // decide() looks at the clock after every event.

void Round::decide(Time now, RoundActions &actions) {
  const std::uint32_t unchecked = count(ParticipantState::reported);
  const std::uint32_t valid = count(ParticipantState::valid);

  if (state_ == State::open) {
    fill_places(actions);
    const std::uint32_t training = count(ParticipantState::training);
    if (training == 0 && unchecked == 0 && valid >= options_.min_workers) {
      return close(actions, "every live worker has reported");
    }
    // Workers that failed, were refused or have no examples will not become valid by waiting.
    const std::uint32_t spoiled =
        count(ParticipantState::failed) + count(ParticipantState::refused) + count(ParticipantState::empty);
    const auto replacements = static_cast<std::uint32_t>(standby_.size());
    if (spoiled > 0 && valid + unchecked + training + replacements < options_.min_workers) {
      return end(false,
                 of_text(valid + unchecked + training + replacements, options_.min_workers) +
                     " workers can still contribute" + failures_text(),
                 actions);
    }
    if (!deadline_ || now < *deadline_) return;
    state_ = State::closing;
    for (auto &[id, participant] : participants_) {
      if (participant.state != ParticipantState::training) continue;
      participant.state = ParticipantState::lost;
      participant.reason = "it had not reported when the deadline passed";
      actions.changed.push_back(id);
      actions.withdraw.push_back(id);
    }
    actions.reasons.push_back("the deadline of round " + std::to_string(options_.number) + " has passed");
  }
  // Closing: reports made in time may still be checked; nothing else changes the outcome.
  if (unchecked > 0) return;
  if (valid >= options_.min_workers) return close(actions, "the deadline has passed");
  end(false,
      "the deadline has passed with " + of_text(valid, options_.min_workers) + " valid updates" +
          failures_text(),
      actions);
}

void Round::fill_places(RoundActions &actions) {
  while (!standby_.empty() && places_taken() < options_.max_workers) {
    const Invitation invitation = standby_.front();
    standby_.erase(standby_.begin());
    participants_[invitation.worker] = Participant{
        .lease = invitation.lease, .state = ParticipantState::training, .report = {}, .reason = {}};
    actions.changed.push_back(invitation.worker);
    actions.invite.push_back(invitation);
    actions.reasons.push_back(worker_text(invitation.worker) + " takes a free place");
  }
}

void Round::close(RoundActions &actions, std::string why) {
  state_ = State::aggregating;
  for (const auto &[id, participant] : participants_) {
    if (participant.state == ParticipantState::valid) actions.aggregate.push_back(participant.report);
  }
  actions.reasons.push_back("round " + std::to_string(options_.number) + " closed: " + why + "; averaging " +
                            counted(actions.aggregate.size(), "update"));
  actions.closed = std::move(why);
}

void Round::end(bool succeeded, std::string reason, RoundActions &actions) {
  state_ = succeeded ? State::succeeded : State::failed;
  for (const auto &[id, participant] : participants_) {
    if (participant.state == ParticipantState::training) actions.withdraw.push_back(id);
  }
  actions.reasons.push_back("round " + std::to_string(options_.number) +
                            (succeeded ? " succeeded: " : " failed: ") + reason);
  actions.outcome = RoundOutcome{succeeded, std::move(reason)};
}

std::uint32_t Round::count(ParticipantState state) const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(participants_, [&](const auto &entry) { return entry.second.state == state; }));
}

std::uint32_t Round::places_taken() const {
  return count(ParticipantState::training) + count(ParticipantState::reported) +
         count(ParticipantState::valid);
}

std::string Round::failures_text() const {
  std::string text;
  bool empty = false;
  std::uint64_t total_weight = 0;
  for (const auto &[id, participant] : participants_) {
    if (participant.state == ParticipantState::empty) empty = true;
    if (participant.state == ParticipantState::valid) total_weight += participant.report.num_examples;
    if (participant.reason.empty()) continue;
    text += "; " + worker_text(id) + " " + std::string(participant_state_name(participant.state)) + ": " +
            participant.reason;
  }
  if (empty && total_weight == 0) text += "; total weight 0";
  return text;
}

}  // namespace parsyn
