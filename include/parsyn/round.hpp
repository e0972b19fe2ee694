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
#include <string_view>
#include <utility>
#include <vector>

#include "parsyn/round_events.hpp"

namespace parsyn {

struct RoundOptions {
  std::uint32_t number = 1;
  std::uint32_t min_workers = 1;
  std::uint32_t max_workers = 1;
  std::optional<std::chrono::milliseconds> timeout = {};  ///< Absent: no deadline.
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
