// The one who watches from outside: what was promised, what is on the disk, and whether the two go together.
//
// It sees every batch that the journal is given, every object, every report that a worker sends and every
// answer that it gets, and computes by itself what should come of them. It never looks into the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "parsyn/journal.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/transport.hpp"
#include "sim/world.hpp"
#include "wire/journal_documents.hpp"

namespace parsyn::sim {

/// On the coordinator's machine.
struct Moment {
  Time now{0};
  std::string boot;
};

class Ledger {
 public:
  struct Rules {
    /// Bytes change on their way: what arrives may be refused.
    bool may_corrupt = false;
    /// The disk may refuse to write, so that time is not kept as often as it should be.
    bool may_stall = false;
    std::uint32_t keep_rounds = 3;
    Time commit_pause_max{0};
  };
  Ledger(World &world, const Rules &rules) : world_(world), rules_(rules) {}

  /// The first rule that was broken; empty: none.
  const std::string &violation() const { return violation_; }
  void fail(const std::string &what);

  // The journal.
  enum class Outcome { kept, not_kept, unknown };
  void batch_begins(std::span<const JournalWrite> batch, const Moment &moment);
  void batch_ends(Outcome outcome);
  /// What is there after a start must be what was committed, with or without the batch that was under way.
  void journal_opened(const Journal &journal, const Moment &moment);
  void coordinator_started(const Moment &moment) { run_before_ = std::exchange(run_, moment); }
  void coordinator_died(const Moment &moment) { died_ = moment; }

  // The store.
  void object_is_written(std::string bytes);
  /// After the coordinator has come back: all that the journal names is there, and nothing else.
  void store_opened(const ObjectStore &store);

  // Workers.
  void report_is_sent(Id worker, const Report &report, bool finite);
  void report_is_accepted(Id worker, const Report &report, bool again);

  // Operators: what was acknowledged must be in the journal then, and so for ever.
  void expect_kept(const std::string &table, Id id);
  /// The job that the journal has under this idempotency key; 0: none.
  Id job_of_key(const std::string &key) const;
  void expect_job_of_key(const std::string &key, Id job);

  /// When all is over.
  void check_end();
  std::optional<JobState> state_of(Id job) const;
  std::string global_sha256(Id job) const;
  std::uint64_t commits() const { return commits_; }
  std::uint64_t rounds() const { return rounds_; }
  std::uint64_t acknowledged() const { return acknowledged_.size(); }

 private:
  using Table = std::map<std::string, std::string>;
  using Tables = std::map<std::string, Table>;
  struct Attempt {
    Time opened{0};
    std::optional<Time> deadline;  ///< On the clock of the present boot.
    Time may_move{0};              ///< By so much: for so long the journal took no report.
  };
  struct JobView {
    wire::StoredJob job;
    wire::StoredJobState state;
    std::map<std::uint32_t, RoundRecord> rounds;
    std::uint64_t last_event = 0;
    std::map<std::uint32_t, Attempt> attempts;
    std::optional<wire::StoredClock> clock;
    bool has_state = false;
  };
  using AcceptedKey = std::tuple<Id, std::uint32_t, Id>;  ///< Job, attempt, worker.
  struct Acknowledged {
    Id worker = 0;
    std::uint32_t attempt = 0;
    Report report;
  };

  static void put(Tables &tables, std::span<const JournalWrite> batch);
  void apply(const std::vector<JournalWrite> &batch, const Moment &moment);
  void apply_job(const std::string &key, const std::string &document);
  void apply_state(Id id, const std::string &document, const Moment &moment);
  void apply_seat(Id job, Id worker, const std::string &document, const Moment &moment);
  void apply_clock(Id job, const std::string &document, const Moment &moment);
  void apply_event(Id job, std::uint64_t sequence, const std::string &document,
                   const std::map<Id, std::uint32_t> &attempts_before, const Moment &moment);
  void apply_round(Id job, std::uint32_t round, const std::string &document);
  void check_success(Id job, const RoundRecord &record);
  void check_global(Id job);
  std::string average_of(Id job, const std::vector<ReportSummary> &reports);
  void collect_keys(std::map<std::string, std::string> &required, std::set<std::string> &allowed,
                    std::vector<std::string> &open_folders) const;
  std::set<std::uint32_t> kept_rounds(const JobView &view) const;

  World &world_;
  const Rules rules_;
  std::string violation_;
  Tables durable_;
  std::optional<std::vector<JournalWrite>> in_flight_;
  Moment in_flight_moment_;
  Time in_flight_began_{0};            ///< When it was tried first.
  std::vector<JournalWrite> refused_;  ///< The batch that was not kept, which is tried again.
  Moment refused_moment_;
  Moment run_;         ///< When this process of the coordinator started,
  Moment run_before_;  ///< and the one before it.
  std::optional<Moment> died_;
  std::map<Id, JobView> jobs_;
  std::map<std::string, Id> job_by_key_;
  std::map<std::string, std::string> token_of_worker_;
  std::map<std::string, std::string> contents_;  ///< By SHA-256.
  std::map<AcceptedKey, ReportSummary> accepted_;
  std::map<std::string, std::vector<std::pair<Report, bool>>>
      sent_;  ///< By update key; whether it is finite.
  std::vector<Acknowledged> acknowledged_;
  std::uint64_t commits_ = 0;
  std::uint64_t rounds_ = 0;
};

}  // namespace parsyn::sim
