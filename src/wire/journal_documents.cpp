#include "wire/journal_documents.hpp"

#include <array>
#include <cstdio>

#include "wire/archive.hpp"

namespace parsyn::wire {
namespace {

/// One value of an event, by its kind.
struct StoredField {
  std::string name;
  std::optional<std::int64_t> whole;
  std::optional<double> number;
  std::optional<std::string> text;
};

/// An Event with values that have a kind.
struct StoredEvent {
  std::uint64_t sequence = 0;
  Id job_id = 0;
  std::int64_t time_ms = 0;
  std::string type;
  std::string text;
  std::vector<StoredField> fields;
};

/// A LossSeries in two columns.
struct StoredLosses {
  Id worker_id = 0;
  std::uint32_t round = 0;
  std::vector<std::uint64_t> steps;
  std::vector<double> losses;
};

StoredEvent stored(const Event &event) {
  StoredEvent stored{event.sequence, event.job_id, event.time_ms, event.type, event.text, {}};
  for (const auto &[name, value] : event.fields) {
    StoredField &field = stored.fields.emplace_back();
    field.name = name;
    if (const auto *whole = std::get_if<std::int64_t>(&value)) field.whole = *whole;
    if (const auto *number = std::get_if<double>(&value)) field.number = *number;
    if (const auto *text = std::get_if<std::string>(&value)) field.text = *text;
  }
  return stored;
}

Event restored(StoredEvent stored) {
  Event event{stored.sequence,        stored.job_id,          stored.time_ms,
              std::move(stored.type), std::move(stored.text), {}};
  for (StoredField &field : stored.fields) {
    if (field.whole) {
      event.fields.emplace_back(std::move(field.name), *field.whole);
    } else if (field.number) {
      event.fields.emplace_back(std::move(field.name), *field.number);
    } else {
      event.fields.emplace_back(std::move(field.name), std::move(field.text).value_or(std::string()));
    }
  }
  return event;
}

StoredLosses stored(const LossSeries &series) {
  StoredLosses stored{series.worker_id, series.round, {}, {}};
  for (const auto &[step, loss] : series.losses) {
    stored.steps.push_back(step);
    stored.losses.push_back(loss);
  }
  return stored;
}

LossSeries restored(const StoredLosses &stored) {
  if (stored.steps.size() != stored.losses.size()) {
    throw Error(ErrorCode::corrupt_data, "the journal's document of LossSeries: it has " +
                                             std::to_string(stored.losses.size()) + " losses for " +
                                             std::to_string(stored.steps.size()) + " steps");
  }
  LossSeries series{stored.worker_id, stored.round, {}};
  for (std::size_t i = 0; i < stored.steps.size(); ++i)
    series.losses.emplace_back(stored.steps[i], stored.losses[i]);
  return series;
}

}  // namespace

template <>
inline constexpr Optimizer kLast<Optimizer> = Optimizer::adamw;
template <>
inline constexpr LearningRateSchedule kLast<LearningRateSchedule> = LearningRateSchedule::cosine;
template <>
inline constexpr MixedPrecision kLast<MixedPrecision> = MixedPrecision::bf16;
template <>
inline constexpr SelectionMode kLast<SelectionMode> = SelectionMode::mixed;
template <>
inline constexpr Dtype kLast<Dtype> = Dtype::c64;
template <>
inline constexpr WorkerKind kLast<WorkerKind> = WorkerKind::parsyn;
template <>
inline constexpr JobState kLast<JobState> = JobState::cancelled;
template <>
inline constexpr ParticipantState kLast<ParticipantState> = ParticipantState::lost;
template <>
inline constexpr Round::State kLast<Round::State> = Round::State::failed;

// One list of fields for each value, for writing and reading. In parsyn::wire, not above, so that the archive
// finds them by its own namespace.

void fields(auto &archive, Is<StoredField> auto &value) {
  archive("name", value.name);
  archive("whole", value.whole);
  archive("number", value.number);
  archive("text", value.text);
}

void fields(auto &archive, Is<EarlyStopping> auto &value) {
  archive("patience", value.patience);
  archive("min_delta", value.min_delta);
}

void fields(auto &archive, Is<TrainingConfig> auto &value) {
  archive("epochs", value.epochs);
  archive("batch_size", value.batch_size);
  archive("learning_rate", value.learning_rate);
  archive("optimizer", value.optimizer);
  archive("momentum", value.momentum);
  archive("weight_decay", value.weight_decay);
  archive("warmup_steps", value.warmup_steps);
  archive("lr_schedule", value.lr_schedule);
  archive("max_grad_norm", value.max_grad_norm);
  archive("mixed_precision", value.mixed_precision);
  archive("use_peft", value.use_peft);
  archive("lora_r", value.lora_r);
  archive("lora_alpha", value.lora_alpha);
  archive("threads", value.threads);
  archive("early_stopping", value.early_stopping);
}

void fields(auto &archive, Is<PartitioningConfig> auto &value) {
  archive("kind", value.kind);
  archive("alpha", value.alpha);
  archive("shards_per_worker", value.shards_per_worker);
}

void fields(auto &archive, Is<DistributedConfig> auto &value) {
  archive("enabled", value.enabled);
  archive("strategy", value.strategy);
  archive("num_rounds", value.num_rounds);
  archive("steps_per_round", value.steps_per_round);
  archive("min_workers", value.min_workers);
  archive("max_workers", value.max_workers);
  archive("aggregation_timeout", value.aggregation_timeout);
  archive("fault_tolerance", value.fault_tolerance);
  archive("partitioning", value.partitioning);
}

void fields(auto &archive, Is<WorkerSelection> auto &value) {
  archive("mode", value.mode);
  archive("worker_ids", value.worker_ids);
  archive("parsyn_worker_ids", value.parsyn_worker_ids);
}

void fields(auto &archive, Is<JobConfig> auto &value) {
  archive("name", value.name);
  archive("dataset_id", value.dataset_id);
  archive("model_id", value.model_id);
  archive("config", value.config);
  archive("distributed", value.distributed);
  archive("worker_selection", value.worker_selection);
  archive("seed", value.seed);
}

void fields(auto &archive, Is<ModelDescription> auto &value) {
  archive("kind", value.kind);
  archive("sizes", value.sizes);
  archive("activation", value.activation);
  archive("loss", value.loss);
  archive("module_key", value.module_key);
  archive("module_sha256", value.module_sha256);
}

void fields(auto &archive, Is<ModelInfo> auto &value) {
  archive("id", value.id);
  archive("name", value.name);
  archive("created_ms", value.created_ms);
  archive("description", value.description);
  archive("num_parameters", value.num_parameters);
  archive("weights_key", value.weights_key);
  archive("weights_sha256", value.weights_sha256);
}

void fields(auto &archive, Is<DatasetShape> auto &value) {
  archive("num_examples", value.num_examples);
  archive("x_dtype", value.x_dtype);
  archive("input_shape", value.input_shape);
  archive("y_dtype", value.y_dtype);
  archive("target_shape", value.target_shape);
  archive("label_min", value.label_min);
  archive("label_max", value.label_max);
}

void fields(auto &archive, Is<DatasetInfo> auto &value) {
  archive("id", value.id);
  archive("name", value.name);
  archive("local", value.local);
  archive("created_ms", value.created_ms);
  archive("train", value.train);
  archive("validation", value.validation);
}

void fields(auto &archive, Is<TrainerCapabilities> auto &value) {
  archive("model_kinds", value.model_kinds);
  archive("bf16", value.bf16);
  archive("lora", value.lora);
  archive("device", value.device);
}

void fields(auto &archive, Is<LocalDataset> auto &value) {
  archive("name", value.name);
  archive("num_examples", value.num_examples);
}

void fields(auto &archive, Is<WorkerInfo> auto &value) {
  archive("id", value.id);
  archive("name", value.name);
  archive("kind", value.kind);
  archive("created_ms", value.created_ms);
  archive("seen_ms", value.seen_ms);
  archive("capabilities", value.capabilities);
  archive("local_datasets", value.local_datasets);
}

void fields(auto &archive, Is<ObjectInfo> auto &value) {
  archive("key", value.key);
  archive("bytes", value.bytes);
  archive("sha256", value.sha256);
  archive("etag", value.etag);
}

void fields(auto &archive, Is<Evaluation> auto &value) {
  archive("loss", value.loss);
  archive("accuracy", value.accuracy);
  archive("num_examples", value.num_examples);
}

void fields(auto &archive, Is<ReportSummary> auto &value) {
  archive("worker", value.worker);
  archive("lease", value.lease);
  archive("round", value.round);
  archive("sha256", value.sha256);
  archive("num_examples", value.num_examples);
}

void fields(auto &archive, Is<Participant> auto &value) {
  archive("lease", value.lease);
  archive("state", value.state);
  archive("report", value.report);
  archive("reason", value.reason);
}

void fields(auto &archive, Is<core::UpdateReported> auto &value) {
  archive("report", value.report);
  archive("train_loss", value.train_loss);
  archive("received", value.received);
  archive("own", value.own);
}

void fields(auto &archive, Is<core::SeatSnapshot> auto &value) {
  archive("worker", value.worker);
  archive("invited_rounds", value.history.invited_rounds);
  archive("contributed_ever", value.history.contributed_ever);
  archive("contributed_last", value.history.contributed_last);
  archive("attempt", value.attempt);
  archive("part", value.part);
  archive("accepted", value.history.accepted);
  archive("report", value.report);
}

void fields(auto &archive, Is<core::JobSetup> auto &value) {
  archive("id", value.id);
  archive("config", value.config);
  archive("model", value.model);
  archive("local_data", value.local_data);
  archive("dataset_name", value.dataset_name);
  archive("train_examples", value.train_examples);
  archive("validation_examples", value.validation_examples);
  archive("join_window", value.join_window);
  archive("examples_per_worker_max", value.examples_per_worker_max);
}

void fields(auto &archive, Is<core::JobSnapshot> auto &value) {
  archive("state", value.state);
  archive("reason", value.reason);
  archive("stopping", value.stopping);
  archive("steps", value.steps);
  archive("round", value.round);
  archive("attempt", value.attempt);
  archive("failed_in_a_row", value.failed_in_a_row);
  archive("failed_attempts_of_round", value.failed_attempts_of_round);
  archive("partition_examples", value.partition_examples);
  archive("partitions", value.partitions);
  archive("notices", value.notices);
  archive("advised", value.advised);
  archive("initial", value.initial);
  archive("evaluators", value.evaluators);
  archive("final_state", value.final_state);
  archive("final_reason", value.final_reason);
  archive("round_state", value.round_state);
  archive("closed", value.closed);
}

void fields(auto &archive, Is<Contribution> auto &value) {
  archive("worker_id", value.worker_id);
  archive("num_examples", value.num_examples);
  archive("state", value.state);
  archive("reason", value.reason);
  archive("train_loss", value.train_loss);
  archive("received", value.received);
  archive("own", value.own);
}

void fields(auto &archive, Is<RoundRecord> auto &value) {
  archive("round", value.round);
  archive("failed_attempts", value.failed_attempts);
  archive("succeeded", value.succeeded);
  archive("reason", value.reason);
  archive("seconds", value.seconds);
  archive("examples", value.examples);
  archive("examples_total", value.examples_total);
  archive("train_loss", value.train_loss);
  archive("validation", value.validation);
  archive("model_key", value.model_key);
  archive("model_sha256", value.model_sha256);
  archive("model_bytes", value.model_bytes);
  archive("contributions", value.contributions);
}

void fields(auto &archive, Is<StoredEvent> auto &value) {
  archive("sequence", value.sequence);
  archive("job_id", value.job_id);
  archive("time_ms", value.time_ms);
  archive("type", value.type);
  archive("text", value.text);
  archive("fields", value.fields);
}

void fields(auto &archive, Is<StoredLosses> auto &value) {
  archive("worker_id", value.worker_id);
  archive("round", value.round);
  archive("steps", value.steps);
  archive("losses", value.losses);
}

void fields(auto &archive, Is<StoredSettings> auto &value) {
  archive("format", value.format);
  archive("id", value.id);
}

void fields(auto &archive, Is<StoredCounters> auto &value) {
  archive("worker", value.worker);
  archive("dataset", value.dataset);
  archive("model", value.model);
  archive("job", value.job);
  archive("lease", value.lease);
  archive("task", value.task);
}

void fields(auto &archive, Is<StoredRequest> auto &value) {
  archive("idempotency_key", value.idempotency_key);
  archive("text", value.text);
}

void fields(auto &archive, Is<StoredWorker> auto &value) {
  archive("info", value.info);
  archive("token_sha256", value.token_sha256);
  archive("request", value.request);
}

void fields(auto &archive, Is<StoredDataset> auto &value) {
  fields(archive, value.info);
  archive("request", value.request);
}

void fields(auto &archive, Is<StoredModel> auto &value) {
  fields(archive, value.info);
  archive("request", value.request);
}

void fields(auto &archive, Is<StoredTask> auto &value) {
  archive("task_id", value.task_id);
  archive("job_id", value.job_id);
  archive("attempt", value.attempt);
  archive("evaluates", value.evaluates);
}

void fields(auto &archive, Is<StoredSession> auto &value) {
  archive("lease", value.lease);
  archive("instance", value.instance);
  archive("replaced", value.replaced);
  archive("capabilities", value.capabilities);
  archive("local_datasets", value.local_datasets);
  archive("tasks", value.tasks);
}

void fields(auto &archive, Is<StoredJob> auto &value) {
  archive("setup", value.setup);
  archive("model", value.model);
  archive("dataset", value.dataset);
  archive("created_ms", value.created_ms);
  archive("idempotency_key", value.idempotency_key);
  archive("partitioner", value.partitioner);
  archive("initial_global", value.initial_global);
  archive("module", value.module);
  archive("validation", value.validation);
}

void fields(auto &archive, Is<StoredJobState> auto &value) {
  archive("job", value.job);
  archive("started_ms", value.started_ms);
  archive("ended_ms", value.ended_ms);
  archive("global", value.global);
}

void fields(auto &archive, Is<StoredClock> auto &value) {
  archive("boot_id", value.boot_id);
  archive("written", value.written);
  archive("deadline", value.deadline);
  archive("round_opened", value.round_opened);
}

// What was asked for; written only.

void fields(auto &archive, const WorkerSpec &value) {
  archive("name", value.name);
  archive("kind", value.kind);
}

void fields(auto &archive, const DatasetFileOptions &value) {
  archive("path", value.path.string());
  archive("labels_path", value.labels_path.string());
  archive("format", value.format);
  archive("label_column", value.label_column);
  archive("bytes_max", value.bytes_max);
}

void fields(auto &archive, const DatasetSpec &value) {
  archive("name", value.name);
  archive("local", value.local);
  archive("train", value.train);
  archive("validation", value.validation);
  archive("validation_fraction", value.validation_fraction);
  archive("split_seed", value.split_seed);
}

void fields(auto &archive, const ModelSpec &value) {
  archive("name", value.name);
  archive("description", value.description);
  archive("path", value.path.string());
  archive("from_job", value.from_job);
  const auto *round = std::get_if<std::uint32_t>(&value.from_round);
  archive("from_round", round != nullptr ? std::optional(*round) : std::nullopt);
  archive("from_best", std::holds_alternative<BestRound>(value.from_round));
}

std::string journal_key(std::initializer_list<std::uint64_t> numbers) {
  std::string key;
  for (const std::uint64_t number : numbers) {
    std::array<char, 24> digits{};
    std::snprintf(digits.data(), digits.size(), "%020llu", static_cast<unsigned long long>(number));
    if (!key.empty()) key += '/';
    key += digits.data();
  }
  return key;
}

#define PARSYN_STORED(Type)                                                   \
  std::string encode_stored(const Type &value) { return to_document(value); } \
  void decode_stored(std::string_view text, Type &value) { value = from_document<Type>(#Type, text); }

PARSYN_STORED(StoredSettings)
PARSYN_STORED(StoredCounters)
PARSYN_STORED(StoredWorker)
PARSYN_STORED(StoredSession)
PARSYN_STORED(StoredDataset)
PARSYN_STORED(StoredModel)
PARSYN_STORED(StoredJob)
PARSYN_STORED(StoredJobState)
PARSYN_STORED(StoredClock)
PARSYN_STORED(std::vector<ObjectInfo>)
PARSYN_STORED(core::SeatSnapshot)
PARSYN_STORED(RoundRecord)

#undef PARSYN_STORED

std::string encode_stored(const Event &value) { return to_document(stored(value)); }
void decode_stored(std::string_view text, Event &value) {
  value = restored(from_document<StoredEvent>("Event", text));
}
std::string encode_stored(const LossSeries &value) { return to_document(stored(value)); }
void decode_stored(std::string_view text, LossSeries &value) {
  value = restored(from_document<StoredLosses>("LossSeries", text));
}

std::string request_text(const WorkerSpec &spec) { return to_document(spec); }
std::string request_text(const DatasetSpec &spec) { return to_document(spec); }
std::string request_text(const ModelSpec &spec) { return to_document(spec); }

}  // namespace parsyn::wire
