// How a coordinator comes back from its journal: the same jobs, rounds, deadlines, leases and tasks.
#include <algorithm>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"
#include "parsyn/safetensors.hpp"
#include "text/encoding.hpp"

namespace parsyn::coordinator {
namespace {

constexpr std::size_t kIdBytes = 16;
/// In the store: which journal its objects belong to.
constexpr char kOwnerKey[] = "parsyn-coordinator";
constexpr char kJobsFolder[] = "jobs/";
constexpr char kDatasetsFolder[] = "datasets/";
constexpr char kModelsFolder[] = "models/";

/// Of a key that journal_key() made.
Id first_number(std::string_view key) { return text::parse_u64(key.substr(0, key.find('/'))).value(); }

/// Whether a number and a slash follow after `folder` in an object's key, as in every key of a coordinator.
bool is_numbered(std::string_view key, std::string_view folder) {
  const std::size_t end = key.find('/', folder.size());
  return end != std::string_view::npos && text::parse_u64(key.substr(folder.size(), end - folder.size()));
}

/// Calls `take` with the first number of each key in the range, and its document.
template <typename Document, typename Take>
void read_all(const Journal &journal, std::string_view table, const KeyRange &range, const Take &take) {
  journal.for_each(table, range, [&](std::string_view key, std::string_view text) {
    Document document;
    wire::decode_stored(text, document);
    take(first_number(key), std::move(document));
  });
}

template <typename Document>
void read_one(const Journal &journal, std::string_view table, const std::string &key, Document &document) {
  journal.for_each(table, {key, key + '\0'},
                   [&](std::string_view, std::string_view text) { wire::decode_stored(text, document); });
}

template <typename Document>
std::vector<Document> read_list(const Journal &journal, std::string_view table, const KeyRange &range) {
  std::vector<Document> documents;
  journal.for_each(table, range, [&](std::string_view, std::string_view text) {
    wire::decode_stored(text, documents.emplace_back());
  });
  return documents;
}

std::string read_owner(const ObjectStore &store) {
  try {
    const auto source = store.open(kOwnerKey);
    std::string id(std::min<std::uint64_t>(source->size(), 1'000), '\0');
    source->read_at(0, std::as_writable_bytes(std::span(id)));
    return id;
  } catch (const Error &error) {
    if (error.code() == ErrorCode::not_found) return {};
    throw;
  }
}

bool is_empty(const ObjectStore &store) {
  const auto has_none = [&](const char *folder) { return store.list(folder).empty(); };
  return has_none(kJobsFolder) && has_none(kDatasetsFolder) && has_none(kModelsFolder);
}

}  // namespace

void CoordinatorImpl::restore() {
  boot_id_ = runtime_.boot_id();
  wire::StoredSettings settings;
  read_one(*journal_, "settings", "format", settings);
  if (settings.format > wire::kJournalFormat) {
    throw Error(ErrorCode::unsupported, "the journal has format " + std::to_string(settings.format) +
                                            ", this parsyn reads up to " +
                                            std::to_string(wire::kJournalFormat) +
                                            ": install the release that wrote it, or a newer one");
  }
  const bool fresh = settings.id.empty();
  if (options_.journal) {
    check_store(fresh, settings.id);
  } else if (!read_owner(*options_.store).empty()) {
    throw Error(
        ErrorCode::conflict,
        "the object store belongs to a coordinator that has a journal: without that journal its objects "
        "would be overwritten; give the journal, or another store");
  }
  if (fresh) {
    settings.format = wire::kJournalFormat;
    if (settings.id.empty()) settings.id = runtime_.random_hex(kIdBytes);
    const JournalWrite write{"settings", "format", wire::encode_stored(settings)};
    journal_->commit({&write, 1});
    return;
  }

  read_one(*journal_, "counters", "all", kept_counters_);
  last_worker_ = kept_counters_.worker;
  last_dataset_ = kept_counters_.dataset;
  last_model_ = kept_counters_.model;
  last_job_ = kept_counters_.job;
  last_task_ = kept_counters_.task;
  read_all<wire::StoredWorker>(*journal_, "workers", {}, [&](Id id, wire::StoredWorker stored) {
    worker_by_token_sha256_[stored.token_sha256] = id;
    remember(worker_by_key_, id, stored.request);
    workers_[id] = std::move(stored);
  });
  // Leases go on: a worker that trained all the while reports under the one that it has.
  sessions_.restore_leases(kept_counters_.lease);
  const Time expires = runtime_.now() + options_.lease_duration;
  read_all<wire::StoredSession>(*journal_, "sessions", {}, [&](Id worker, const wire::StoredSession &stored) {
    if (workers_.contains(worker)) sessions_.restore(worker, stored, expires);
  });
  read_all<wire::StoredDataset>(*journal_, "datasets", {}, [&](Id id, wire::StoredDataset stored) {
    remember(dataset_by_key_, id, stored.request);
    datasets_[id] = std::move(stored.info);
  });
  read_all<wire::StoredModel>(*journal_, "models", {}, [&](Id id, wire::StoredModel stored) {
    remember(model_by_key_, id, stored.request);
    models_[id] = std::move(stored.info);
  });
  read_all<wire::StoredJob>(*journal_, "jobs", {},
                            [&](Id id, const wire::StoredJob &stored) { restore_job(id, stored); });
  if (options_.journal) sweep_orphans();
}

void CoordinatorImpl::restore_job(Id id, const wire::StoredJob &stored) {
  const std::string key = wire::journal_key({id});
  const KeyRange below{key + '/', key + '0'};  // '0' comes next after '/'
  wire::StoredJobState state;
  read_one(*journal_, "job_states", key, state);
  core::KeptJob kept;
  kept.job = state.job;
  kept.seats = read_list<core::SeatSnapshot>(*journal_, "seats", below);
  kept.records = read_list<RoundRecord>(*journal_, "rounds", below);
  kept.round_opened = runtime_.now();
  read_all<wire::StoredClock>(
      *journal_, "job_clocks", {key, key + '\0'}, [&](Id, const wire::StoredClock &clock) {
        const Time now = runtime_.now();
        // The same boot: the clock has gone on, and so does the deadline. Another one: what remained when it
        // was last written goes on from now.
        const bool same_boot = !boot_id_.empty() && clock.boot_id == boot_id_ && clock.written <= now;
        const Time moved = same_boot ? Time{0} : now - clock.written;
        if (clock.deadline) kept.deadline = *clock.deadline + moved;
        kept.round_opened = clock.round_opened + moved;
      });

  auto entry = std::make_unique<JobEntry>(core::Job(stored.setup, std::move(kept)));
  entry->attempt_before = entry->job.attempt();
  entry->model = stored.model;
  entry->dataset = stored.dataset;
  entry->created_ms = stored.created_ms;
  entry->idempotency_key = stored.idempotency_key;
  entry->partitioner = stored.partitioner;
  entry->initial_global = stored.initial_global;
  entry->module = stored.module;
  entry->validation = stored.validation;
  entry->started_ms = state.started_ms;
  entry->ended_ms = state.ended_ms;
  entry->global = state.global.key.empty() ? stored.initial_global : state.global;
  read_one(*journal_, "job_partitions", key, entry->partitions);
  journal_->for_each("event_ceilings", {key, key + '\0'}, [&](std::string_view, std::string_view text) {
    entry->event_ceiling = text::parse_u64(text).value();
  });
  find_models(*entry);
  if (!entry->idempotency_key.empty()) job_by_idempotency_key_[entry->idempotency_key] = id;
  entry->in_memory = !is_terminal(entry->job.state());
  if (entry->in_memory) {
    load_events(*entry);
    open_jobs_[id] = entry.get();
    try {
      const ObjectInfo global = options_.store->stat(entry->global.key);
      if (global.sha256 != entry->global.sha256) {
        throw Error(ErrorCode::corrupt_data, "object " + global.key + " has SHA-256 " + global.sha256 +
                                                 ", the journal says " + entry->global.sha256);
      }
      entry->specs = std::make_shared<const std::vector<TensorSpec>>(
          read_safetensors_header(*options_.store->open(entry->global.key)).specs());
    } catch (const Error &error) {
      if (error.code() == ErrorCode::io || error.code() == ErrorCode::unavailable) throw;
      entry->cannot_go_on = "after a restart its weights are not as they were: " + error.message();
    }
  }
  jobs_[id] = std::move(entry);
}

void CoordinatorImpl::find_models(JobEntry &entry) {
  const auto &records = entry.job.records();
  const std::string own = job_folder(entry.job.setup().id);
  if (entry.initial_global.key.starts_with(own)) entry.kept_rounds.insert(0);
  for (const RoundRecord &record : records) {
    if (record.succeeded) entry.kept_rounds.insert(record.round);
  }
  Batch nothing;
  collect_models(entry, nothing);  // what it removes is swept
}

void CoordinatorImpl::check_store(bool fresh, std::string &id) {
  ObjectStore &store = *options_.store;
  const std::string owner = read_owner(store);
  if (fresh) {
    // A first start may have been killed between the mark and the journal: then there is nothing yet.
    if (!owner.empty() && !is_empty(store)) {
      throw Error(ErrorCode::conflict,
                  "the object store belongs to another coordinator's journal (its mark is " +
                      owner.substr(0, 64) +
                      "): start with the state folder that goes with it, or give an empty store");
    }
    id = runtime_.random_hex(kIdBytes);
    const auto writer = store.create(kOwnerKey);
    writer->write(std::as_bytes(std::span(id)));
    writer->commit();
    return;
  }
  if (owner == id) return;
  if (owner.empty()) {
    throw Error(ErrorCode::conflict,
                "the object store does not hold this journal's objects (its mark is missing): is its disk "
                "mounted, and is it the store that was used before?");
  }
  throw Error(ErrorCode::conflict, "the object store belongs to another coordinator's journal (its mark is " +
                                       owner.substr(0, 64) + ", this journal's is " + id +
                                       "): give the store that was used before");
}

void CoordinatorImpl::sweep_orphans() {
  std::set<std::string> referenced;
  std::set<std::string> open_folders;
  for (const auto &[id, dataset] : datasets_) {
    if (dataset.train) referenced.insert(train_key(id));
    if (dataset.validation) referenced.insert(validation_key(id));
  }
  for (const auto &[id, model] : models_) {
    referenced.insert(model.weights_key);
    referenced.insert(model.description.module_key);
  }
  for (const auto &[id, entry] : jobs_) {
    for (const std::uint32_t round : entry->kept_rounds) {
      referenced.insert(round == 0 ? entry->initial_global.key
                                   : entry->job.records().at(round - 1).model_key);
    }
    referenced.insert(entry->global.key);
    if (is_terminal(entry->job.state())) continue;
    for (const ObjectInfo &partition : entry->partitions) referenced.insert(partition.key);
    // What workers have put there, or may still report.
    open_folders.insert(update_folder(id, {.round = entry->job.round(), .attempt = entry->job.attempt()}));
    // An average that was stored when its round was not yet recorded is made again, to the same bytes.
  }
  std::size_t removed = 0;
  for (const char *folder : {kJobsFolder, kDatasetsFolder, kModelsFolder}) {
    for (const std::string &key : options_.store->list(folder)) {
      // A number beyond the last one is of what a crash has kept from being committed: the store is this
      // journal's alone.
      if (!is_numbered(key, folder) || referenced.contains(key)) continue;
      if (std::ranges::any_of(open_folders, [&](const auto &open) { return key.starts_with(open); }))
        continue;
      options_.store->remove(key);
      ++removed;
    }
  }
  if (removed > 0) {
    log_now(LogLevel::info, "store.swept",
            std::to_string(removed) + " objects that nothing refers to any more are removed");
  }
}

void CoordinatorImpl::resume(Batch &batch) {
  std::vector<core::WorkerProfile> live;
  for (const auto &[worker, session] : sessions_.all()) live.push_back(profile_of(worker, session));
  for (auto next = open_jobs_.begin(); next != open_jobs_.end();) {
    JobEntry &entry = *(next++)->second;
    if (!entry.cannot_go_on.empty()) {
      step(entry, core::DriverFailed{entry.cannot_go_on}, batch);
      continue;
    }
    apply(entry, entry.job.resume(live, runtime_.now()), batch);
    // On the clock of this boot from now on, although nothing has changed: else the next failure of power
    // would give back the time in between.
    if (!is_terminal(entry.job.state())) keep_clock(entry, batch);
  }
}

}  // namespace parsyn::coordinator
