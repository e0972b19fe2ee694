// What the journal is told of the coordinator's state (wire/journal_documents.hpp has the tables).
//
// A step of a job says what has changed; once per batch that is written, so that a job of which ten workers
// report at once is written once.
#include <algorithm>
#include <iterator>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"

namespace parsyn::coordinator {
namespace {

/// Visits documents in key order until `visit` returns false.
template <typename Visit>
void read_until(const Journal &journal, std::string_view table, const KeyRange &range, const Visit &visit) {
  struct Enough {};
  try {
    journal.for_each(table, range, [&](std::string_view, std::string_view document) {
      if (!visit(document)) throw Enough{};
    });
  } catch (const Enough &) {
  }
}

}  // namespace

void CoordinatorImpl::keep_changes(Batch &batch) {
  for (const Id id : unkept_jobs_) keep(find_job(id), batch);
  unkept_jobs_.clear();
  for (const Id worker : unkept_sessions_) keep_session(worker, batch);
  unkept_sessions_.clear();
  const wire::StoredCounters now = counters();
  if (now == kept_counters_) return;
  kept_counters_ = now;
  batch.writes.push_back({"counters", "all", wire::encode_stored(now)});
}

wire::StoredCounters CoordinatorImpl::counters() const {
  return {.worker = last_worker_,
          .dataset = last_dataset_,
          .model = last_model_,
          .job = last_job_,
          .lease = sessions_.last_lease(),
          .task = last_task_};
}

void CoordinatorImpl::keep(JobEntry &entry, Batch &batch) {
  const core::JobChanges changes = std::exchange(entry.unkept, {});
  const core::Job &job = entry.job;
  const Id id = job.setup().id;
  const std::string key = wire::journal_key({id});
  if (changes.job) {
    batch.writes.push_back({"job_states", key,
                            wire::encode_stored(wire::StoredJobState{job.snapshot(), entry.started_ms,
                                                                     entry.ended_ms, entry.global})});
  }
  for (const Id worker : changes.seats) {
    batch.writes.push_back({"seats", wire::journal_key({id, worker}), wire::encode_stored(job.seat(worker))});
  }
  for (const std::uint32_t round : changes.rounds) {
    batch.writes.push_back(
        {"rounds", wire::journal_key({id, round}), wire::encode_stored(job.records().at(round - 1))});
  }
  if (is_terminal(job.state())) {
    entry.clock_kept.reset();
    batch.writes.push_back({"job_clocks", key, {}});
    batch.writes.push_back({"job_partitions", key, {}});
  } else if (changes.job || !changes.seats.empty()) {
    keep_clock(entry, batch);
  }
}

void CoordinatorImpl::keep_clock(JobEntry &entry, Batch &batch) {
  const core::Job &job = entry.job;
  const Time now = runtime_.now();
  // Of a job that waits nothing runs out; what was kept of its last round means nothing then.
  entry.clock_kept = job.deadline() ? std::optional(now) : std::nullopt;
  if (job.state() == JobState::waiting) return;
  batch.writes.push_back(
      {"job_clocks", wire::journal_key({job.setup().id}),
       wire::encode_stored(wire::StoredClock{boot_id_, now, job.deadline(), job.round_opened()})});
}

void CoordinatorImpl::keep_session(Id worker, Batch &batch) {
  const std::string key = wire::journal_key({worker});
  Session *session = sessions_.find(worker);
  if (session == nullptr) {
    batch.writes.push_back({"sessions", key, {}});
    return;
  }
  std::erase_if(session->kept_tasks, [&](const wire::StoredTask &task) {
    return Sessions::find_task(*session, task.task_id) == nullptr;
  });
  batch.writes.push_back({"sessions", key,
                          wire::encode_stored(wire::StoredSession{
                              session->lease, session->instance, session->replaced, session->capabilities,
                              session->local_datasets, session->kept_tasks})});
}

void CoordinatorImpl::collect_models(JobEntry &entry, Batch &batch) {
  const auto &records = entry.job.records();
  std::set<std::uint32_t> wanted;
  for (auto record = records.rbegin(); record != records.rend() && wanted.size() < options_.keep_rounds;
       ++record) {
    if (record->succeeded) wanted.insert(record->round);
  }
  if (const auto best = entry.job.best_round()) wanted.insert(*best);
  if (wanted.size() < options_.keep_rounds) wanted.insert(0);
  std::vector<std::string> keys;
  std::erase_if(entry.kept_rounds, [&](std::uint32_t round) {
    if (wanted.contains(round)) return false;
    keys.push_back(round == 0 ? entry.initial_global.key : records.at(round - 1).model_key);
    return true;
  });
  if (!keys.empty()) remove_objects(std::move(keys), batch);
}

void CoordinatorImpl::remove_objects(std::vector<std::string> keys, Batch &batch) {
  work_later(batch, [this, keys = std::move(keys)] {
    for (const std::string &key : keys) {
      if (stopping_) return;  // the next start sweeps them
      try {
        options_.store->remove(key);
      } catch (const std::exception &error) {
        // It is in nobody's way, and goes at the next start.
        log_now(LogLevel::warning, "store.remove",
                "object " + key + " could not be removed: " + error.what());
      }
    }
  });
}

void CoordinatorImpl::load_events(JobEntry &entry) const {
  const Id id = entry.job.setup().id;
  std::deque<Event> events;
  journal_->for_each("events", {wire::journal_key({id}), wire::journal_key({id + 1})},
                     [&](std::string_view, std::string_view document) {
                       wire::decode_stored(document, events.emplace_back());
                     });
  entry.events.restore(std::move(events), entry.event_ceiling);
  journal_->for_each("losses", {wire::journal_key({id}), wire::journal_key({id + 1})},
                     [&](std::string_view, std::string_view document) {
                       LossSeries series;
                       wire::decode_stored(document, series);
                       entry.losses.restore(series);
                     });
}

void CoordinatorImpl::unload_events(Id job) {
  const std::lock_guard lock(mutex_);
  JobEntry &entry = find_job(job);
  entry.in_memory = false;
  entry.events.clear();
  entry.losses.clear_but_last(entry.job.round());
}

std::vector<Event> CoordinatorImpl::events_after(Id job, std::uint64_t sequence,
                                                 std::size_t count_max) const {
  using Events = std::vector<Event>;
  const auto in_memory = look([&]() -> std::optional<Events> {
    const JobEntry &entry = find_job(job);
    if (!entry.in_memory) return std::nullopt;
    return entry.events.after(sequence, count_max);
  });
  if (in_memory) return *in_memory;
  Events events;
  if (sequence == UINT64_MAX) return events;
  const KeyRange range{wire::journal_key({job, sequence + 1}), wire::journal_key({job + 1})};
  read_until(*journal_, "events", range, [&](std::string_view document) {
    if (events.size() == count_max) return false;
    wire::decode_stored(document, events.emplace_back());
    return true;
  });
  return events;
}

std::uint64_t CoordinatorImpl::last_event(Id job) const {
  struct Known {
    bool is_last = false;
    std::uint64_t sequence = 0;
  };
  const Known known = look([&]() -> Known {
    const JobEntry &entry = find_job(job);
    if (entry.in_memory) return {true, entry.events.newest()};
    if (entry.events.last_sequence() > 0) return {true, entry.events.last_sequence()};
    // It ended before this process began. What ends a job is no progress: it is in the journal.
    return {false, entry.event_ceiling - std::min(entry.event_ceiling, kEventSequenceBlock)};
  });
  if (known.is_last) return known.sequence;
  Event last;
  journal_->for_each(
      "events", {wire::journal_key({job, known.sequence}), wire::journal_key({job + 1})},
      [&](std::string_view, std::string_view document) { wire::decode_stored(document, last); });
  return last.sequence;
}

std::vector<LossSeries> CoordinatorImpl::losses_after(Id id, const LossPlace &after, std::size_t count_max,
                                                      std::optional<std::uint32_t> round) const {
  using Page = std::vector<LossSeries>;
  const LossPlace from = round && after.round < *round ? LossPlace{*round, 0} : after;
  const std::uint32_t last_round = round.value_or(UINT32_MAX);
  const auto in_memory = look([&]() -> std::optional<Page> {
    const JobEntry &entry = find_job(id);
    if (!entry.in_memory) return std::nullopt;
    return entry.losses.page(from, last_round, count_max);
  });
  if (in_memory) return *in_memory;
  LossPage page(count_max);
  const KeyRange range{wire::journal_key({id, from.round, from.worker_id}) + '\0',
                       wire::journal_key({id, std::uint64_t{last_round} + 1})};
  read_until(*journal_, "losses", range, [&](std::string_view document) {
    if (page.is_full()) return false;
    LossSeries series;
    wire::decode_stored(document, series);
    page.add(std::move(series));
    return true;
  });
  return page.take();
}

std::vector<LossSeries> CoordinatorImpl::losses(Id id, std::optional<std::uint32_t> round) const {
  std::vector<LossSeries> all;
  LossPlace after;
  for (;;) {
    std::vector<LossSeries> page = losses_after(id, after, SIZE_MAX, round);
    if (page.empty()) return all;
    after = {page.back().round, page.back().worker_id};
    std::ranges::move(page, std::back_inserter(all));
  }
}

}  // namespace parsyn::coordinator
