// What the coordinator keeps in its journal, as JSON documents, both ways.
//
// Table            key               document
// settings         format            StoredSettings
// counters         all               StoredCounters
// workers          WORKER            StoredWorker
// sessions         WORKER            StoredSession: a lease that has not ended
// datasets         DATASET           StoredDataset
// models           MODEL             StoredModel
// jobs             JOB               StoredJob: what never changes
// job_states       JOB               StoredJobState
// job_clocks       JOB               StoredClock, while a deadline runs
// job_partitions   JOB               the objects of its partitions, while it has not ended
// seats            JOB/WORKER        core::SeatSnapshot: with it, an accepted report
// rounds           JOB/ROUND         RoundRecord
// events           JOB/SEQUENCE      Event
// event_ceilings   JOB               no event of the job has a higher sequence
// losses           JOB/ROUND/WORKER  LossSeries
//
// Numbers in keys have leading zeros, so that the order of keys is that of numbers. decode_* throw
// Error(corrupt_data). Enumerations are written as numbers: new values go at their end.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/job.hpp"
#include "parsyn/coordinator.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/status.hpp"

namespace parsyn::wire {

inline constexpr std::uint32_t kJournalFormat = 1;

struct StoredSettings {
  std::uint32_t format = 0;
  std::string id;  ///< Random; the object store carries the same.
};

/// The last of each that was given out.
struct StoredCounters {
  Id worker = 0;
  Id dataset = 0;
  Id model = 0;
  Id job = 0;
  std::uint64_t lease = 0;
  std::uint64_t task = 0;
  bool operator==(const StoredCounters &) const = default;
};

/// The request that registered something, where it had an idempotency key.
struct StoredRequest {
  std::string idempotency_key;
  std::string text;  ///< request_text()
};

struct StoredWorker {
  WorkerInfo info;
  std::string token_sha256;
  std::optional<StoredRequest> request;
};

struct StoredDataset {
  DatasetInfo info;
  std::optional<StoredRequest> request;
};

struct StoredModel {
  ModelInfo info;
  std::optional<StoredRequest> request;
};

struct StoredTask {
  std::uint64_t task_id = 0;
  Id job_id = 0;
  std::uint32_t attempt = 0;
  bool evaluates = false;
};

struct StoredSession {
  std::uint64_t lease = 0;
  std::string instance;
  std::vector<std::string> replaced;
  TrainerCapabilities capabilities;
  std::vector<LocalDataset> local_datasets;
  std::vector<StoredTask> tasks;
};

struct StoredJob {
  core::JobSetup setup;
  ModelInfo model;
  DatasetInfo dataset;
  std::int64_t created_ms = 0;
  std::string idempotency_key;
  std::string partitioner;
  ObjectInfo initial_global;
  std::optional<ObjectInfo> module;
  std::optional<ObjectInfo> validation;
};

struct StoredJobState {
  core::JobSnapshot job;
  std::optional<std::int64_t> started_ms;
  std::optional<std::int64_t> ended_ms;
  ObjectInfo global;
};

/// Points in time on the monotonic clock of one boot of the machine.
struct StoredClock {
  std::string boot_id;
  std::chrono::milliseconds written{0};
  std::optional<std::chrono::milliseconds> deadline;
  std::chrono::milliseconds round_opened{0};
};

std::string journal_key(std::initializer_list<std::uint64_t> numbers);

std::string encode_stored(const StoredSettings &value);
std::string encode_stored(const StoredCounters &value);
std::string encode_stored(const StoredWorker &value);
std::string encode_stored(const StoredSession &value);
std::string encode_stored(const StoredDataset &value);
std::string encode_stored(const StoredModel &value);
std::string encode_stored(const StoredJob &value);
std::string encode_stored(const StoredJobState &value);
std::string encode_stored(const StoredClock &value);
std::string encode_stored(const std::vector<ObjectInfo> &value);
std::string encode_stored(const core::SeatSnapshot &value);
std::string encode_stored(const RoundRecord &value);
std::string encode_stored(const Event &value);
std::string encode_stored(const LossSeries &value);

void decode_stored(std::string_view text, StoredSettings &value);
void decode_stored(std::string_view text, StoredCounters &value);
void decode_stored(std::string_view text, StoredWorker &value);
void decode_stored(std::string_view text, StoredSession &value);
void decode_stored(std::string_view text, StoredDataset &value);
void decode_stored(std::string_view text, StoredModel &value);
void decode_stored(std::string_view text, StoredJob &value);
void decode_stored(std::string_view text, StoredJobState &value);
void decode_stored(std::string_view text, StoredClock &value);
void decode_stored(std::string_view text, std::vector<ObjectInfo> &value);
void decode_stored(std::string_view text, core::SeatSnapshot &value);
void decode_stored(std::string_view text, RoundRecord &value);
void decode_stored(std::string_view text, Event &value);
void decode_stored(std::string_view text, LossSeries &value);

/// Equal for equal requests only.
std::string request_text(const WorkerSpec &spec);
std::string request_text(const DatasetSpec &spec);
std::string request_text(const ModelSpec &spec);

}  // namespace parsyn::wire
