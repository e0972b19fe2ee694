// One training job, as a pure state machine over its rounds: events in, work out (the driver is
// src/coordinator).
//
// The Job knows which workers are live and may take part, waits for enough of them, opens rounds, tries
// failed ones again, asks for the final evaluation, and decides when the job has ended. Tensors, files,
// clocks and threads stay with the driver. Rules: docs/rounds.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parsyn/round.hpp"
#include "parsyn/status.hpp"

namespace parsyn::core {

/// What a job must know besides its configuration, fixed when it is created.
struct JobSetup {
  Id id = 0;
  JobConfig config;  ///< Valid, with a seed.
  ModelDescription model;
  bool local_data = false;
  std::string dataset_name;
  std::uint64_t train_examples = 0;       ///< 0 in local mode: the workers say.
  std::uint64_t validation_examples = 0;  ///< 0: nothing is evaluated.
  std::chrono::milliseconds join_window{0};
  std::uint64_t examples_per_worker_max = 0;
};

/// A live worker, as its session described it.
struct WorkerProfile {
  Id id = 0;
  WorkerKind kind = WorkerKind::own;
  std::uint64_t lease = 0;
  TrainerCapabilities capabilities;
  std::vector<LocalDataset> local_datasets;
};

/// Whether the job's selection names this worker.
bool is_selected(const JobConfig &config, const WorkerProfile &worker);
/// Why this selected worker cannot do what the job asks; empty when it can.
std::string why_not_eligible(const JobSetup &job, const WorkerProfile &worker);
/// Of the capabilities alone: what makes a job impossible on a worker.
std::string why_not_capable(const TrainingConfig &config, const ModelDescription &model,
                            const TrainerCapabilities &capabilities);

struct WorkerOnline {
  WorkerProfile worker;
};
struct WorkerOffline {
  Id worker = 0;
};
struct TaskFailed {
  Id worker = 0;
  std::uint64_t lease = 0;
  std::uint32_t round = 0;
  std::string reason;
};
struct UpdateReported {
  ReportSummary report;
  std::optional<double> train_loss;
  std::optional<Evaluation> received, own;
};
struct UpdateVerdict {
  Id worker = 0;
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  std::string refusal;
};
struct RoundAveraged {
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  std::string failure;
  std::string key, sha256;
  std::uint64_t bytes = 0;
};
struct FinalEvaluation {
  Id worker = 0;
  std::optional<Evaluation> evaluation;
  std::string failure;
};
/// The data has been divided: examples of each partition, as many as make_partitions asked for.
struct PartitionsMade {
  std::vector<std::uint64_t> examples;
};
struct StopRequested {};
struct CancelRequested {};
/// The driver cannot go on with this job (storage, partitions): it ends as failed.
struct DriverFailed {
  std::string reason;
};
struct Tick {};
using JobEvent =
    std::variant<WorkerOnline, WorkerOffline, TaskFailed, UpdateReported, UpdateVerdict, RoundAveraged,
                 FinalEvaluation, PartitionsMade, StopRequested, CancelRequested, DriverFailed, HeldUp, Tick>;

struct JobInvitation {
  Id worker = 0;
  std::uint64_t lease = 0;
  std::optional<std::uint32_t> partition;  ///< Nothing in local mode.
  std::uint64_t num_examples = 0;          ///< The weight that it must report.
};

/// For the stream of events and the log.
struct Notice {
  std::string type;
  std::string text;
  std::vector<std::pair<std::string, EventValue>> fields;
};

/// One try at a round.
struct RoundAttempt {
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
};

/// What of a job the journal does not know yet.
struct JobChanges {
  bool job = false;                ///< snapshot()
  std::set<Id> seats;              ///< seat()
  std::set<std::uint32_t> rounds;  ///< records(), by number
};

/// Work to do, in this order: journal what changed, answer, publish notices, then start the work.
struct JobActions {
  JobChanges changes;
  std::optional<ReportAnswer> answer;
  std::vector<Notice> notices;
  std::optional<std::uint32_t> make_partitions;  ///< Divide the data into so many, then tell PartitionsMade.
  std::vector<Id> withdraw;                      ///< These may drop their task of this job.
  std::vector<JobInvitation> invite;             ///< Train round(), attempt().
  std::vector<Id> check;                         ///< Validate these updates of round(), attempt().
  std::vector<ReportSummary> aggregate;          ///< Not empty: average these.
  std::optional<RoundAttempt> discard;  ///< It is over: its reports and updates are not needed again.
  std::vector<Invitation> evaluate;  ///< Evaluate the last global model on these, the first answer is enough.
  bool ended = false;                ///< The job has reached a terminal state.
  std::optional<Time> wake_at;
};

/// A job as the journal keeps it, without its seats and records. No points in time: those of a clock end with
/// the boot of the machine.
struct JobSnapshot {
  JobState state = JobState::waiting;
  std::string reason;
  bool stopping = false;
  std::uint64_t steps = 0;
  std::uint32_t round = 0;
  std::uint32_t attempt = 0;
  std::uint32_t failed_in_a_row = 0;
  std::uint32_t failed_attempts_of_round = 0;
  std::vector<std::uint64_t> partition_examples;  ///< Of each partition; empty before they are made.
  /// Worker -> its partition; a lost worker's may be given on in auto mode.
  std::map<Id, std::uint32_t> partitions;
  std::vector<std::string> notices;
  bool advised = false;
  std::optional<Evaluation> initial;
  /// Asked for the final evaluation; the text says why one failed.
  std::map<Id, std::string> evaluators;
  JobState final_state = JobState::completed;  ///< After the final evaluation.
  std::string final_reason;
  std::optional<Round::State> round_state;  ///< Of the current attempt.
  std::string closed;                       ///< Why it closed; empty: it has not.
};

/// What a worker has done in a job so far.
struct SeatHistory {
  std::uint32_t invited_rounds = 0;
  bool contributed_ever = false;
  bool contributed_last = false;
  std::optional<ReportSummary> accepted;  ///< Its last one: a repeat gets the same answer, however late.
};

/// What the journal keeps of a worker's part in a job.
struct SeatSnapshot {
  Id worker = 0;
  SeatHistory history;
  std::uint32_t attempt = 0;             ///< That `part` and `report` belong to.
  std::optional<Participant> part;       ///< In the round.
  std::optional<UpdateReported> report;  ///< Accepted.
};

/// A job that was kept, with points in time on the present clock.
struct KeptJob {
  JobSnapshot job;
  std::vector<SeatSnapshot> seats;
  std::vector<RoundRecord> records;
  std::optional<Time> deadline;  ///< Of the open round or of the final evaluation.
  Time round_opened{0};          ///< When the current attempt began.
};

class Job {
 public:
  explicit Job(JobSetup setup);
  /// One that has not ended needs resume() next.
  Job(JobSetup setup, KeptJob kept);

  JobSnapshot snapshot() const;
  SeatSnapshot seat(Id worker) const;
  /// Whether it has ever had a place in the job.
  bool has_seat(Id worker) const { return seats_.contains(worker); }
  Time round_opened() const { return round_opened_; }

  /// The first step: takes in who is live.
  JobActions start(const std::vector<WorkerProfile> &live, Time now);
  /// The first step of a job that was kept: asks again for all work that was under way, of those that are
  /// live.
  JobActions resume(const std::vector<WorkerProfile> &live, Time now);
  JobActions step(const JobEvent &event, Time now);
  /// What this report would be answered now; nothing changes.
  ReportAnswer answer_to(const ReportSummary &report, Time now) const;

  const JobSetup &setup() const { return setup_; }
  JobState state() const { return kept_.state; }
  const std::string &reason() const { return kept_.reason; }
  bool stopping() const { return kept_.stopping; }
  std::uint32_t num_rounds() const { return num_rounds_; }
  std::uint32_t round() const { return kept_.round; }      ///< In progress or last; 0 before the first.
  std::uint32_t attempt() const { return kept_.attempt; }  ///< Counts all opened rounds of the job, from 1.
  std::uint32_t failed_in_a_row() const { return kept_.failed_in_a_row; }
  std::uint64_t steps() const { return kept_.steps; }  ///< Per round.
  std::optional<Time> deadline() const;
  const std::vector<std::string> &notices() const { return kept_.notices; }
  const std::vector<RoundRecord> &records() const { return records_; }
  /// Null before the first round.
  const Round *current() const { return current_ ? &*current_ : nullptr; }
  const std::optional<Evaluation> &initial() const { return kept_.initial; }
  std::optional<std::uint32_t> best_round() const;
  std::optional<Evaluation> final_validation() const;
  /// Every worker that is live or took part, in id order; without names, liveness and progress, which the
  /// driver has.
  std::vector<WorkerProgress> worker_states() const;

 private:
  struct Seat {  // a selected worker that the job has seen
    WorkerProfile profile;
    bool live = false;
    std::string not_eligible;  // why; empty: eligible
    SeatHistory history;
  };

  void on(const WorkerOnline &event, Time now, JobActions &actions);
  void on(const WorkerOffline &event, Time now, JobActions &actions);
  void on(const TaskFailed &event, Time now, JobActions &actions);
  void on(const UpdateReported &event, Time now, JobActions &actions);
  void on(const UpdateVerdict &event, Time now, JobActions &actions);
  void on(const RoundAveraged &event, Time now, JobActions &actions);
  void on(const FinalEvaluation &event, Time now, JobActions &actions);
  void on(const PartitionsMade &event, Time now, JobActions &actions);
  void on(const StopRequested &event, Time now, JobActions &actions);
  void on(const CancelRequested &event, Time now, JobActions &actions);
  void on(const DriverFailed &event, Time now, JobActions &actions);
  void on(const HeldUp &event, Time now, JobActions &actions);
  void on(const Tick &event, Time now, JobActions &actions);

  /// Nothing: the open round decides.
  std::optional<ReportAnswer> why_refused(const ReportSummary &report) const;
  /// False: the worker is not selected, and of no interest.
  bool take_seat(const WorkerProfile &profile, Time now);
  JobActions &with_wake(JobActions &actions) const;
  void try_to_open(Time now, JobActions &actions);
  void open_round(Time now, JobActions &actions);
  void assign_partitions(JobActions &actions);
  /// Partitions whose owner is gone go to workers that stand by without one, and these into the round.
  void give_on_partitions(Time now, JobActions &actions);
  void wait_for(std::string reason, JobActions &actions);
  void drive_round(const RoundEvent &event, Time now, JobActions &actions);
  void round_ended(const RoundOutcome &outcome, Time now, JobActions &actions);
  void record_round(const RoundOutcome &outcome, Time now, JobActions &actions);
  /// Null before the first round that succeeded.
  const RoundRecord *last_succeeded() const;
  RoundRecord *last_succeeded();
  RoundOptions round_options() const;
  void resume_round(Time now, JobActions &actions);
  void take_validation_of_previous(JobActions &actions);
  void record_final(const Evaluation &evaluation, JobActions &actions);
  /// The evaluation of the final model is over without a finite loss; `why` is said when there is none at
  /// all.
  void end_without_finite_loss(const std::string &why, JobActions &actions);
  /// Rounds since the best validation loss last improved by `min_delta`.
  std::uint32_t rounds_without_improvement(double min_delta) const;
  void say_how_data_is_spread(JobActions &actions);
  void finish_training(JobState state, std::string reason, Time now, JobActions &actions);
  /// Those live workers that took part and have not been asked yet.
  void ask_to_evaluate(bool SeatHistory::*took_part, JobActions &actions);
  /// When no live worker is left that was asked and has not answered.
  void ask_others_to_evaluate(JobActions &actions);
  void end(JobState state, std::string reason, JobActions &actions);
  void say(JobActions &actions, std::string type, std::string text,
           std::vector<std::pair<std::string, EventValue>> fields = {}) const;
  std::vector<Id> candidates() const;
  bool keeps_partitions_by_id() const;
  bool has_live_owner(std::uint32_t partition) const;
  std::optional<std::uint32_t> partition_of(Id worker) const;
  std::uint64_t examples_of(Id worker) const;
  JobInvitation job_invitation(const Invitation &invitation) const;
  Invitation invitation_of(Id worker) const;
  std::uint32_t min_workers() const;
  std::uint32_t max_workers() const;

  JobSetup setup_;
  JobSnapshot kept_;  // but for round_state, which current_ has
  std::uint32_t num_rounds_ = 0;
  Time last_join_{0};
  std::optional<Time> join_window_ends_;
  Time round_opened_{0};
  Time evaluation_deadline_{0};

  std::map<Id, Seat> seats_;
  bool partitioning_ = false;  // make_partitions was asked for and not yet answered
  std::optional<Round> current_;
  std::map<Id, UpdateReported> reports_;  // of the current attempt
  std::vector<RoundRecord> records_;  // one a round; the last may be of a round that has only failed so far
};

/// The workers of a round: those that were invited least often first, ties by a seeded draw; at most `max`,
/// in worker-id order; the others follow, in the drawn order.
struct Cohort {
  std::vector<Id> invited;
  std::vector<Id> standby;
};
Cohort choose_cohort(const std::vector<std::pair<Id, std::uint32_t>> &invited_rounds_by_worker,
                     std::uint32_t max, std::uint64_t seed);

}  // namespace parsyn::core
