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

std::vector<StoredField> stored_fields(const std::vector<std::pair<std::string, EventValue>> &values) {
  std::vector<StoredField> stored;
  for (const auto &[name, value] : values) {
    StoredField &field = stored.emplace_back();
    field.name = name;
    if (const auto *whole = std::get_if<std::int64_t>(&value)) field.whole = *whole;
    if (const auto *number = std::get_if<double>(&value)) field.number = *number;
    if (const auto *text = std::get_if<std::string>(&value)) field.text = *text;
  }
  return stored;
}

std::vector<std::pair<std::string, EventValue>> event_fields(const std::vector<StoredField> &stored) {
  std::vector<std::pair<std::string, EventValue>> values;
  for (const StoredField &field : stored) {
    if (field.whole) {
      values.emplace_back(field.name, *field.whole);
    } else if (field.number) {
      values.emplace_back(field.name, *field.number);
    } else {
      values.emplace_back(field.name, field.text.value_or(std::string()));
    }
  }
  return values;
}

}  // namespace

// One list of fields for each value, for writing and reading. In parsyn::wire, not above, so that the archive
// finds them by its own namespace.

template <typename Archive>
void fields(Archive &archive, StoredField &value) {
  archive("name", value.name);
  archive("whole", value.whole);
  archive("number", value.number);
  archive("text", value.text);
}

template <typename Archive>
void fields(Archive &archive, EarlyStopping &value) {
  archive("patience", value.patience);
  archive("min_delta", value.min_delta);
}

template <typename Archive>
void fields(Archive &archive, TrainingConfig &value) {
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

template <typename Archive>
void fields(Archive &archive, PartitioningConfig &value) {
  archive("kind", value.kind);
  archive("alpha", value.alpha);
  archive("shards_per_worker", value.shards_per_worker);
}

template <typename Archive>
void fields(Archive &archive, DistributedConfig &value) {
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

template <typename Archive>
void fields(Archive &archive, WorkerSelection &value) {
  archive("mode", value.mode);
  archive("worker_ids", value.worker_ids);
  archive("parsyn_worker_ids", value.parsyn_worker_ids);
}

template <typename Archive>
void fields(Archive &archive, JobConfig &value) {
  archive("name", value.name);
  archive("dataset_id", value.dataset_id);
  archive("model_id", value.model_id);
  archive("config", value.config);
  archive("distributed", value.distributed);
  archive("worker_selection", value.worker_selection);
  archive("seed", value.seed);
}

template <typename Archive>
void fields(Archive &archive, ModelDescription &value) {
  archive("kind", value.kind);
  archive("sizes", value.sizes);
  archive("activation", value.activation);
  archive("loss", value.loss);
  archive("module_key", value.module_key);
  archive("module_sha256", value.module_sha256);
}

template <typename Archive>
void fields(Archive &archive, ModelInfo &value) {
  archive("id", value.id);
  archive("name", value.name);
  archive("created_ms", value.created_ms);
  archive("description", value.description);
  archive("num_parameters", value.num_parameters);
  archive("weights_key", value.weights_key);
  archive("weights_sha256", value.weights_sha256);
}

template <typename Archive>
void fields(Archive &archive, DatasetShape &value) {
  archive("num_examples", value.num_examples);
  archive("x_dtype", value.x_dtype);
  archive("input_shape", value.input_shape);
  archive("y_dtype", value.y_dtype);
  archive("target_shape", value.target_shape);
  archive("label_min", value.label_min);
  archive("label_max", value.label_max);
}

template <typename Archive>
void fields(Archive &archive, DatasetInfo &value) {
  archive("id", value.id);
  archive("name", value.name);
  archive("local", value.local);
  archive("created_ms", value.created_ms);
  archive("train", value.train);
  archive("validation", value.validation);
}

template <typename Archive>
void fields(Archive &archive, TrainerCapabilities &value) {
  archive("model_kinds", value.model_kinds);
  archive("bf16", value.bf16);
  archive("lora", value.lora);
  archive("device", value.device);
}

template <typename Archive>
void fields(Archive &archive, LocalDataset &value) {
  archive("name", value.name);
  archive("num_examples", value.num_examples);
}

template <typename Archive>
void fields(Archive &archive, WorkerInfo &value) {
  archive("id", value.id);
  archive("name", value.name);
  archive("kind", value.kind);
  archive("created_ms", value.created_ms);
  archive("seen_ms", value.seen_ms);
  archive("capabilities", value.capabilities);
  archive("local_datasets", value.local_datasets);
}

template <typename Archive>
void fields(Archive &archive, ObjectInfo &value) {
  archive("key", value.key);
  archive("bytes", value.bytes);
  archive("sha256", value.sha256);
  archive("etag", value.etag);
}

template <typename Archive>
void fields(Archive &archive, Evaluation &value) {
  archive("loss", value.loss);
  archive("accuracy", value.accuracy);
  archive("num_examples", value.num_examples);
}

template <typename Archive>
void fields(Archive &archive, ReportSummary &value) {
  archive("worker", value.worker);
  archive("lease", value.lease);
  archive("round", value.round);
  archive("sha256", value.sha256);
  archive("num_examples", value.num_examples);
}

template <typename Archive>
void fields(Archive &archive, Participant &value) {
  archive("lease", value.lease);
  archive("state", value.state);
  archive("report", value.report);
  archive("reason", value.reason);
}

template <typename Archive>
void fields(Archive &archive, core::UpdateReported &value) {
  archive("report", value.report);
  archive("train_loss", value.train_loss);
  archive("received", value.received);
  archive("own", value.own);
}

template <typename Archive>
void fields(Archive &archive, core::SeatSnapshot &value) {
  archive("worker", value.worker);
  archive("invited_rounds", value.history.invited_rounds);
  archive("contributed_ever", value.history.contributed_ever);
  archive("contributed_last", value.history.contributed_last);
  archive("attempt", value.attempt);
  archive("part", value.part);
  archive("accepted", value.history.accepted);
  archive("report", value.report);
}

template <typename Archive>
void fields(Archive &archive, core::JobSetup &value) {
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

template <typename Archive>
void fields(Archive &archive, core::JobSnapshot &value) {
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
}

template <typename Archive>
void fields(Archive &archive, Contribution &value) {
  archive("worker_id", value.worker_id);
  archive("num_examples", value.num_examples);
  archive("state", value.state);
  archive("reason", value.reason);
  archive("train_loss", value.train_loss);
  archive("received", value.received);
  archive("own", value.own);
}

template <typename Archive>
void fields(Archive &archive, RoundRecord &value) {
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

template <typename Archive>
void fields(Archive &archive, Event &value) {
  std::vector<StoredField> stored = stored_fields(value.fields);
  archive("sequence", value.sequence);
  archive("job_id", value.job_id);
  archive("time_ms", value.time_ms);
  archive("type", value.type);
  archive("text", value.text);
  archive("fields", stored);
  value.fields = event_fields(stored);
}

template <typename Archive>
void fields(Archive &archive, LossSeries &value) {
  std::vector<std::uint64_t> steps;
  std::vector<double> losses;
  for (const auto &[step, loss] : value.losses) {
    steps.push_back(step);
    losses.push_back(loss);
  }
  archive("worker_id", value.worker_id);
  archive("round", value.round);
  archive("steps", steps);
  archive("losses", losses);
  if (steps.size() != losses.size()) archive_detail::refuse("losses are not as many as steps");
  value.losses.clear();
  for (std::size_t i = 0; i < steps.size(); ++i) value.losses.emplace_back(steps[i], losses[i]);
}

template <typename Archive>
void fields(Archive &archive, StoredSettings &value) {
  archive("format", value.format);
  archive("id", value.id);
}

template <typename Archive>
void fields(Archive &archive, StoredCounters &value) {
  archive("worker", value.worker);
  archive("dataset", value.dataset);
  archive("model", value.model);
  archive("job", value.job);
  archive("lease", value.lease);
  archive("task", value.task);
}

template <typename Archive>
void fields(Archive &archive, StoredWorker &value) {
  archive("info", value.info);
  archive("token_sha256", value.token_sha256);
}

template <typename Archive>
void fields(Archive &archive, StoredTask &value) {
  archive("task_id", value.task_id);
  archive("job_id", value.job_id);
  archive("attempt", value.attempt);
  archive("evaluates", value.evaluates);
}

template <typename Archive>
void fields(Archive &archive, StoredSession &value) {
  archive("lease", value.lease);
  archive("instance", value.instance);
  archive("replaced", value.replaced);
  archive("capabilities", value.capabilities);
  archive("local_datasets", value.local_datasets);
  archive("tasks", value.tasks);
}

template <typename Archive>
void fields(Archive &archive, StoredJob &value) {
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

template <typename Archive>
void fields(Archive &archive, StoredJobState &value) {
  archive("job", value.job);
  archive("started_ms", value.started_ms);
  archive("ended_ms", value.ended_ms);
  archive("global", value.global);
}

template <typename Archive>
void fields(Archive &archive, StoredClock &value) {
  archive("boot_id", value.boot_id);
  archive("written", value.written);
  archive("deadline", value.deadline);
  archive("round_opened", value.round_opened);
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
PARSYN_STORED(DatasetInfo)
PARSYN_STORED(ModelInfo)
PARSYN_STORED(StoredJob)
PARSYN_STORED(StoredJobState)
PARSYN_STORED(StoredClock)
PARSYN_STORED(std::vector<ObjectInfo>)
PARSYN_STORED(core::SeatSnapshot)
PARSYN_STORED(RoundRecord)
PARSYN_STORED(Event)
PARSYN_STORED(LossSeries)

#undef PARSYN_STORED

}  // namespace parsyn::wire
