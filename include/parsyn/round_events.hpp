// What a Round (round.hpp) is told, and what it answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parsyn/job_config.hpp"

namespace parsyn {

/// Milliseconds since any fixed moment, on a clock that never goes back.
using Time = std::chrono::milliseconds;

/// A worker with the lease under which it was invited.
struct Invitation {
  Id worker = 0;
  std::uint64_t lease = 0;
  bool operator==(const Invitation &) const = default;
};

struct ReportSummary {
  Id worker = 0;
  std::uint64_t lease = 0;
  std::uint32_t round = 0;
  std::string sha256 = {};  ///< Of the stored update.
  std::uint64_t num_examples = 0;
  bool operator==(const ReportSummary &) const = default;
};

/// Opens the round: first the cohort, then who else is live and could take a place that falls free, in that
/// order.
struct RoundOpened {
  std::vector<Invitation> cohort = {};
  std::vector<Invitation> standby = {};
};
/// A live, eligible worker joined or came back, with a new lease.
struct WorkerAvailable {
  Invitation worker = {};
};
/// The worker's lease ended.
struct WorkerLost {
  Id worker = 0;
};
/// The worker answered "failed".
struct WorkerFailed {
  Id worker = 0;
  std::uint64_t lease = 0;
  std::string reason = {};
};
/// The worker states that its update is stored.
struct ReportArrived {
  ReportSummary report = {};
};
/// The update was read as a whole; an empty refusal means that it is valid.
struct UpdateChecked {
  Id worker = 0;
  std::string refusal = {};
};
/// The new global weights are stored; or why not.
struct AggregationFinished {
  std::string failure = {};
};
/// For so long the host could take no report, as its own disk was full: the deadline of an open round is as
/// much later.
struct HeldUp {
  std::chrono::milliseconds duration{0};
};
struct TimePassed {};
using RoundEvent = std::variant<RoundOpened, WorkerAvailable, WorkerLost, WorkerFailed, ReportArrived,
                                UpdateChecked, AggregationFinished, HeldUp, TimePassed>;

/// The answer to a report. What is refused has no effect on the round.
struct ReportAnswer {
  enum class Verdict { accepted, duplicate, refused };
  Verdict verdict = Verdict::refused;
  std::string code;    ///< refused: "wrong_round", "lease_expired", "not_invited", "conflicting_report",
                       ///< "round_closed", ...
  std::string reason;  ///< A sentence that ends with what the worker should do next.
};

struct RoundOutcome {
  bool succeeded = false;
  std::string reason;
};

/// Work to do, in this order. An accepted report is journaled before it is answered.
struct RoundActions {
  std::optional<ReportAnswer> answer;  ///< To the report that was the event.
  std::vector<Invitation> invite;      ///< Give these the round's task.
  std::vector<Id> check;               ///< Validate these updates as a whole, then tell UpdateChecked.
  std::vector<ReportSummary>
      aggregate;             ///< Not empty: average these, in this order, then tell AggregationFinished.
  std::string closed;        ///< Not empty: why the round has closed, to be averaged.
  std::vector<Id> withdraw;  ///< The round is over for these: they may drop their work.
  std::optional<RoundOutcome> outcome;  ///< The round has ended.
  std::optional<Time> wake_at;          ///< Send TimePassed then, at the latest.
  std::vector<Id> changed;              ///< Participants whose state is another now, in no order.
  std::vector<std::string> reasons;     ///< One sentence for each decision that was taken.
};

}  // namespace parsyn
