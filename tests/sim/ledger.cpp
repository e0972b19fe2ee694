#include "sim/ledger.hpp"

#include <algorithm>

#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "system/sha256.hpp"

namespace parsyn::sim {
namespace {

constexpr const char *kTables[] = {"settings", "counters", "workers",    "sessions",       "datasets",
                                   "models",   "jobs",     "job_states", "job_clocks",     "job_partitions",
                                   "seats",    "rounds",   "events",     "event_ceilings", "losses"};

std::vector<std::uint64_t> numbers_in(const std::string &key) {
  std::vector<std::uint64_t> numbers;
  for (std::size_t at = 0; at < key.size();) {
    const std::size_t end = std::min(key.find('/', at), key.size());
    numbers.push_back(std::stoull(key.substr(at, end - at)));
    at = end + 1;
  }
  return numbers;
}

bool has_digits(const std::string &key) { return !key.empty() && key[0] >= '0' && key[0] <= '9'; }

/// Of "jobs/1/rounds/2/updates-3/...".
std::uint32_t attempt_in(const std::string &key, const std::string &mark) {
  const std::size_t at = key.find(mark);
  if (at == std::string::npos) return 0;
  return static_cast<std::uint32_t>(std::stoul(key.substr(at + mark.size())));
}

bool same(const std::vector<JournalWrite> &a, std::span<const JournalWrite> b) {
  return std::ranges::equal(a, b, [](const JournalWrite &one, const JournalWrite &other) {
    return one.table == other.table && one.key == other.key && one.document == other.document;
  });
}

std::string job_text(Id job) { return "job " + std::to_string(job); }

std::string ms_text(Time time) { return std::to_string(time.count()) + " ms"; }

bool has_report(const core::SeatSnapshot &seat) {
  if (!seat.part) return false;
  switch (seat.part->state) {
    case ParticipantState::reported:
    case ParticipantState::valid:
    case ParticipantState::empty:
    case ParticipantState::refused:
      return true;
    default:
      return false;
  }
}

template <typename T>
T decoded(const std::string &document) {
  T value;
  wire::decode_stored(document, value);
  return value;
}

}  // namespace

void Ledger::fail(const std::string &what) {
  if (!violation_.empty()) return;
  violation_ = what;
  world_.trace("BROKEN: " + what);
}

void Ledger::put(Tables &tables, std::span<const JournalWrite> batch) {
  for (const JournalWrite &write : batch) {
    if (write.document) {
      tables[write.table][write.key] = *write.document;
    } else {
      tables[write.table].erase(write.key);
    }
  }
}

void Ledger::batch_begins(std::span<const JournalWrite> batch, const Moment &moment) {
  in_flight_.emplace(batch.begin(), batch.end());
  // Tried again: what it says was decided when it came first.
  const bool again = !refused_.empty() && same(refused_, batch);
  in_flight_moment_ = again ? refused_moment_ : moment;
  if (!again) in_flight_began_ = world_.now();
}

void Ledger::batch_ends(Outcome outcome) {
  if (outcome == Outcome::unknown) return;
  const std::vector<JournalWrite> batch = std::move(*in_flight_);
  in_flight_.reset();
  refused_.clear();
  if (outcome == Outcome::kept) {
    apply(batch, in_flight_moment_);
    const Time took = world_.now() - in_flight_began_ + rules_.commit_pause_max;
    if (took < limits::kHeartbeatInterval) return;
    for (auto &[id, view] : jobs_) {
      const auto attempt = view.attempts.find(view.state.job.attempt);
      if (attempt != view.attempts.end()) attempt->second.may_move += took;
    }
    return;
  }
  refused_ = batch;
  refused_moment_ = in_flight_moment_;
}

void Ledger::journal_opened(const Journal &journal, const Moment &moment) {
  Tables actual;
  for (const char *name : kTables) {
    journal.for_each(name, [&](std::string_view key, std::string_view document) {
      actual[name][std::string(key)] = std::string(document);
    });
  }
  const auto tidy = [](Tables &tables) {
    std::erase_if(tables, [](const auto &one) { return one.second.empty(); });
  };
  Tables with = durable_;
  if (in_flight_) put(with, *in_flight_);
  Tables without = durable_;
  tidy(actual);
  tidy(with);
  tidy(without);
  if (in_flight_ && actual == with) {
    const std::vector<JournalWrite> batch = std::move(*in_flight_);
    in_flight_.reset();
    apply(batch, in_flight_moment_);
  } else if (actual != without) {
    std::string what = "the journal does not hold what was committed:";
    for (const char *name : kTables) {
      for (const auto &[key, document] : without[name]) {
        if (!actual[name].contains(key)) {
          what += std::string(" ") + name + "/" + key + " is lost;";
        } else if (actual[name][key] != document) {
          what += std::string(" ") + name + "/" + key + " is another;";
        }
      }
      for (const auto &[key, document] : actual[name]) {
        if (!without[name].contains(key)) what += std::string(" ") + name + "/" + key + " is new;";
      }
    }
    fail(what.substr(0, 600));
  }
  in_flight_.reset();
  refused_.clear();

  for (auto &[id, view] : jobs_) {
    // Of a job that waits nothing runs out.
    const JobState state = view.state.job.state;
    if (!view.clock || is_terminal(state) || state == JobState::waiting) continue;
    const wire::StoredClock &clock = *view.clock;
    if (clock.boot_id == moment.boot) continue;
    // Of the time in which it ran, no more than this may go uncounted.
    const bool is_kept = died_ && clock.boot_id == died_->boot;
    const Time since = is_kept ? std::max(clock.written, run_before_.now) : run_before_.now;
    const Time uncounted_max = limits::kClockInterval + 2 * rules_.commit_pause_max + Time(100);
    if (died_ && died_->boot == run_before_.boot && clock.deadline && !rules_.may_stall &&
        died_->now - since > uncounted_max) {
      fail("of the deadline of " + job_text(id) + " " + ms_text(died_->now - since) + " are lost");
    }
    // What remained when it was last written goes on from now.
    auto attempt = view.attempts.find(view.state.job.attempt);
    if (attempt != view.attempts.end() && attempt->second.deadline && clock.deadline)
      attempt->second.deadline = *clock.deadline - clock.written + moment.now;
  }
}

void Ledger::object_is_written(std::string bytes) {
  const std::string sha256 = system::sha256_hex(bytes);
  contents_.emplace(sha256, std::move(bytes));
}

void Ledger::apply(const std::vector<JournalWrite> &batch, const Moment &moment) {
  ++commits_;
  std::map<Id, std::uint32_t> attempts_before;
  for (const auto &[id, view] : jobs_) attempts_before[id] = view.state.job.attempt;
  std::set<Id> touched;
  const auto each = [&](std::string_view table, const auto &call) {
    for (const JournalWrite &write : batch) {
      if (write.table == table && has_digits(write.key) && write.document) call(write, numbers_in(write.key));
    }
  };
  for (const JournalWrite &write : batch) {
    const auto old = durable_[write.table].find(write.key);
    const bool is_there = old != durable_[write.table].end();
    const bool changes = is_there && (!write.document || old->second != *write.document);
    const bool is_fixed = write.table == "jobs" || write.table == "datasets" || write.table == "models";
    if (is_fixed && changes) fail(write.table + "/" + write.key + ", which never changes, has changed");
    const bool is_of_job = write.table == "job_states" || write.table == "seats" || write.table == "rounds";
    if (is_of_job && (changes || !is_there)) {
      const Id job = numbers_in(write.key).at(0);
      const auto view = jobs_.find(job);
      if (view != jobs_.end() && is_terminal(view->second.state.job.state))
        fail(job_text(job) + " has ended, and " + write.table + "/" + write.key + " has changed");
    }
    if (write.table == "workers" && write.document) {
      const auto worker = decoded<wire::StoredWorker>(*write.document);
      const auto [known, fresh] = token_of_worker_.try_emplace(write.key, worker.token_sha256);
      if (!fresh && known->second != worker.token_sha256)
        fail("worker " + write.key + " has another token: its id was used again");
    }
  }
  each("jobs", [&](const JournalWrite &write, const auto &) { apply_job(write.key, *write.document); });
  each("job_states", [&](const JournalWrite &write, const auto &key) {
    apply_state(key.at(0), *write.document, moment);
    touched.insert(key.at(0));
  });
  each("job_clocks",
       [&](const JournalWrite &write, const auto &key) { apply_clock(key.at(0), *write.document, moment); });
  for (const JournalWrite &write : batch) {
    if (write.table == "job_clocks" && !write.document) jobs_[numbers_in(write.key).at(0)].clock.reset();
  }
  each("seats", [&](const JournalWrite &write, const auto &key) {
    apply_seat(key.at(0), key.at(1), *write.document, moment);
  });
  each("rounds", [&](const JournalWrite &write, const auto &key) {
    apply_round(key.at(0), static_cast<std::uint32_t>(key.at(1)), *write.document);
    touched.insert(key.at(0));
  });
  each("events", [&](const JournalWrite &write, const auto &key) {
    apply_event(key.at(0), key.at(1), *write.document, attempts_before, moment);
  });
  put(durable_, batch);
  for (const Id job : touched) check_global(job);
}

void Ledger::apply_job(const std::string &key, const std::string &document) {
  if (durable_["jobs"].contains(key)) return;
  const Id id = numbers_in(key).at(0);
  JobView &view = jobs_[id];
  view.job = decoded<wire::StoredJob>(document);
  if (view.job.idempotency_key.empty()) return;
  const auto [known, fresh] = job_by_key_.try_emplace(view.job.idempotency_key, id);
  if (!fresh) {
    fail("idempotency key " + view.job.idempotency_key + " has made " + job_text(known->second) + " and " +
         job_text(id));
  }
}

void Ledger::apply_state(Id id, const std::string &document, const Moment &moment) {
  JobView &view = jobs_[id];
  const core::JobSnapshot before = view.state.job;
  view.state = decoded<wire::StoredJobState>(document);
  const core::JobSnapshot &after = view.state.job;
  view.has_state = true;
  if (after.round < before.round || after.round > before.round + 1) {
    fail(job_text(id) + " goes from round " + std::to_string(before.round) + " to " +
         std::to_string(after.round));
  }
  if (after.attempt < before.attempt)
    fail(job_text(id) + " goes back to attempt " + std::to_string(after.attempt));
  if (after.attempt > before.attempt) {
    Attempt attempt{.opened = moment.now, .deadline = {}};
    const JobConfig &config = view.job.setup.config;
    if (config.is_distributed())
      attempt.deadline = moment.now + std::chrono::seconds(config.distributed->aggregation_timeout);
    view.attempts[after.attempt] = attempt;
  }
}

void Ledger::apply_clock(Id job, const std::string &document, const Moment &moment) {
  JobView &view = jobs_[job];
  view.clock = decoded<wire::StoredClock>(document);
  const bool is_round = view.state.job.state == JobState::running;
  const auto attempt = view.attempts.find(view.state.job.attempt);
  if (!is_round || !view.clock->deadline || attempt == view.attempts.end()) return;
  if (view.clock->boot_id != moment.boot) fail(job_text(job) + " keeps the clock of another boot");
  Attempt &open = attempt->second;
  const Time moved = *view.clock->deadline - open.deadline.value_or(Time{0});
  if (moved < Time{0} || moved > open.may_move) {
    fail("the deadline of " + job_text(job) + " has moved by " + ms_text(moved));
  }
  open.deadline = view.clock->deadline;
  open.may_move -= moved;
}

void Ledger::apply_seat(Id job, Id worker, const std::string &document, const Moment &moment) {
  const auto seat = decoded<core::SeatSnapshot>(document);
  if (!has_report(seat)) return;
  const ReportSummary &report = seat.part->report;
  const std::string who = "worker " + std::to_string(worker) + " in attempt " + std::to_string(seat.attempt) +
                          " of " + job_text(job);
  const auto [known, fresh] = accepted_.try_emplace(AcceptedKey{job, seat.attempt, worker}, report);
  if (!fresh) {
    if (known->second != report) fail("the report of " + who + " was replaced by another");
    return;
  }
  const auto attempt = jobs_[job].attempts.find(seat.attempt);
  if (attempt == jobs_[job].attempts.end()) return fail("the report of " + who + " is for no attempt");
  if (attempt->second.deadline && moment.now >= *attempt->second.deadline + attempt->second.may_move) {
    fail("the report of " + who + " was accepted " + ms_text(moment.now - *attempt->second.deadline) +
         " after the deadline");
  }
  bool was_sent = false;
  for (const auto &[key, reports] : sent_) {
    for (const auto &[sent, finite] : reports) {
      was_sent =
          was_sent || (sent.job_id == job && sent.round == report.round && sent.lease == report.lease &&
                       sent.sha256 == report.sha256 && sent.num_examples == report.num_examples &&
                       attempt_in(key, "/updates-") == seat.attempt);
    }
  }
  if (!was_sent) fail("nobody has sent the report of " + who);
}

void Ledger::apply_event(Id job, std::uint64_t sequence, const std::string &document,
                         const std::map<Id, std::uint32_t> &attempts_before, const Moment &moment) {
  JobView &view = jobs_[job];
  if (sequence <= view.last_event) {
    fail("event " + std::to_string(sequence) + " of " + job_text(job) + " comes after event " +
         std::to_string(view.last_event));
  }
  view.last_event = sequence;
  const auto event = decoded<Event>(document);
  if (!event.text.starts_with("the deadline of round ")) return;
  const auto before = attempts_before.find(job);
  const auto attempt = view.attempts.find(before == attempts_before.end() ? 0 : before->second);
  if (attempt == view.attempts.end() || !attempt->second.deadline) return;
  if (moment.now < *attempt->second.deadline) {
    fail("a round of " + job_text(job) + " closed by its deadline " +
         ms_text(*attempt->second.deadline - moment.now) + " before it");
  }
}

void Ledger::report_is_sent(Id, const Report &report, bool finite) {
  if (!report.failure.empty() || report.key.empty()) return;
  sent_[report.key].emplace_back(report, finite);
}

void Ledger::report_is_accepted(Id worker, const Report &report, bool again) {
  if (!report.failure.empty() || report.key.empty()) return;
  const std::uint32_t attempt = attempt_in(report.key, "/updates-");
  const ReportSummary summary{worker, report.lease, report.round, report.sha256, report.num_examples};
  const auto found = accepted_.find(AcceptedKey{report.job_id, attempt, worker});
  if (found == accepted_.end() || found->second != summary) {
    // A round that is tried again may bring the same update again: the answer is that of the first.
    const bool is_of_earlier = again && std::ranges::any_of(accepted_, [&](const auto &one) {
                                 return std::get<0>(one.first) == report.job_id &&
                                        std::get<1>(one.first) < attempt && one.second == summary;
                               });
    if (is_of_earlier) return;
    fail("the report of worker " + std::to_string(worker) + " for attempt " + std::to_string(attempt) +
         " of " + job_text(report.job_id) + " was acknowledged and is not kept");
  }
  acknowledged_.push_back({worker, attempt, report});
}

void Ledger::expect_kept(const std::string &table, Id id) {
  const std::string key = wire::journal_key({id});
  if (!durable_[table].contains(key)) fail(table + "/" + key + " was acknowledged and is not kept");
}

Id Ledger::job_of_key(const std::string &key) const {
  const auto found = job_by_key_.find(key);
  return found == job_by_key_.end() ? 0 : found->second;
}

void Ledger::expect_job_of_key(const std::string &key, Id job) {
  if (job_of_key(key) != job)
    fail("idempotency key " + key + " gave " + job_text(job) + "; the journal has " +
         job_text(job_of_key(key)));
}

std::optional<JobState> Ledger::state_of(Id job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.has_state) return std::nullopt;
  return found->second.state.job.state;
}

std::string Ledger::global_sha256(Id job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::string() : found->second.state.global.sha256;
}

void Ledger::check_end() {
  for (const Acknowledged &one : acknowledged_) {
    const JobView &view = jobs_[one.report.job_id];
    const auto record = view.rounds.find(one.report.round);
    // A round that succeeded counted what was accepted in it; see check_success().
    if (record == view.rounds.end() || !record->second.succeeded) continue;
    if (attempt_in(record->second.model_key, "/global-") < one.attempt) {
      fail("a report was accepted for round " + std::to_string(one.report.round) + " of " +
           job_text(one.report.job_id) + ", which had succeeded before");
    }
  }
}

}  // namespace parsyn::sim
