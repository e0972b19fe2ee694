// One round, as a pure state machine: events in, work out.
//
// A Round knows who was invited, who reported and what the clock says, and decides when the round closes and
// with whom. It has no thread, clock, file or socket: time is an argument, and the same events give the same
// actions. A host may drive it alone; parsyn's Coordinator drives it too.
//
// The rules (docs/rounds.md): the deadline counts from the moment the round opens, and nothing that a worker
// does extends it; time in which no report could be taken does not count (HeldUp). The round closes early
// when every invited, live worker has settled and at least min_workers valid updates are there. At the
// deadline it closes with what was reported in time, if at least min_workers of that is valid, else it fails.
// It fails at once when some workers failed and those that are left cannot reach min_workers. A worker that
// comes while the round is open is invited where there is a free place.
//
// Thread-safety: a value with one user at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parsyn/job_config.hpp"

namespace parsyn {

/// Milliseconds since any fixed moment, on a clock that never goes back.
using Time = std::chrono::milliseconds;

struct RoundOptions {
  std::uint32_t number = 1;
  std::uint32_t min_workers = 1;
  std::uint32_t max_workers = 1;
  std::optional<std::chrono::milliseconds> timeout;  ///< Absent: no deadline.
};

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
  std::string sha256;  ///< Of the stored update.
  std::uint64_t num_examples = 0;
  bool operator==(const ReportSummary &) const = default;
};

/// Opens the round: first the cohort, then who else is live and could take a place that falls free, in that
/// order.
struct RoundOpened {
  std::vector<Invitation> cohort;
  std::vector<Invitation> standby;
};
/// A live, eligible worker joined or came back, with a new lease.
struct WorkerAvailable {
  Invitation worker;
};
/// The worker's lease ended.
struct WorkerLost {
  Id worker = 0;
};
/// The worker answered "failed".
struct WorkerFailed {
  Id worker = 0;
  std::uint64_t lease = 0;
  std::string reason;
};
/// The worker states that its update is stored.
struct ReportArrived {
  ReportSummary report;
};
/// The update was read as a whole; an empty refusal means that it is valid.
struct UpdateChecked {
  Id worker = 0;
  std::string refusal;
};
/// The new global weights are stored; or why not.
struct AggregationFinished {
  std::string failure;
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

enum class ParticipantState {
  training,  ///< Invited, and live.
  reported,  ///< Its report is accepted, its update not yet checked.
  valid,     ///< Counts.
  empty,     ///< Reported zero examples: kept for its metrics, adds nothing.
  refused,   ///< Its update was refused.
  failed,    ///< Answered "failed".
  lost,      ///< Its lease ended.
};
std::string_view participant_state_name(ParticipantState state);

struct Participant {
  std::uint64_t lease = 0;
  ParticipantState state = ParticipantState::training;
  ReportSummary report;  ///< From `reported` on.
  std::string reason;    ///< Why refused, failed or lost.
};

class Round {
 public:
  enum class State { fresh, open, closing, aggregating, succeeded, failed };

  explicit Round(const RoundOptions &options) : options_(options) {}
  /// A round that was kept: `state` is not fresh. Who stands by is told again by WorkerAvailable.
  Round(const RoundOptions &options, State state, std::optional<Time> deadline,
        std::map<Id, Participant> participants)
      : options_(options), state_(state), deadline_(deadline), participants_(std::move(participants)) {}

  RoundActions step(const RoundEvent &event, Time now);

  State state() const { return state_; }
  const RoundOptions &options() const { return options_; }
  std::optional<Time> deadline() const { return deadline_; }
  const std::map<Id, Participant> &participants() const { return participants_; }

 private:
  void on(const RoundOpened &event, Time now, RoundActions &actions);
  void on(const WorkerAvailable &event, Time now, RoundActions &actions);
  void on(const WorkerLost &event, Time now, RoundActions &actions);
  void on(const WorkerFailed &event, Time now, RoundActions &actions);
  void on(const ReportArrived &event, Time now, RoundActions &actions);
  void on(const UpdateChecked &event, Time now, RoundActions &actions);
  void on(const AggregationFinished &event, Time now, RoundActions &actions);
  void on(const HeldUp &event, Time now, RoundActions &actions);
  void on(const TimePassed &event, Time now, RoundActions &actions);

  void decide(Time now, RoundActions &actions);
  void fill_places(RoundActions &actions);
  void close(RoundActions &actions, std::string why);
  void end(bool succeeded, std::string reason, RoundActions &actions);
  std::uint32_t count(ParticipantState state) const;
  std::uint32_t places_taken() const;
  std::string failures_text() const;

  RoundOptions options_;
  State state_ = State::fresh;
  std::optional<Time> deadline_;
  std::map<Id, Participant> participants_;
  std::vector<Invitation> standby_;  // live and eligible, without a place
};

}  // namespace parsyn
