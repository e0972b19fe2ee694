#include "wire/values.hpp"

#include <cmath>
#include <limits>

#include "core/evaluation_mean.hpp"

namespace parsyn::wire {
namespace {

constexpr Choices<Optimizer, 2> kOptimizers{{{"sgd", Optimizer::sgd}, {"adamw", Optimizer::adamw}}};
constexpr Choices<LearningRateSchedule, 3> kSchedules{{{"constant", LearningRateSchedule::constant},
                                                       {"linear", LearningRateSchedule::linear},
                                                       {"cosine", LearningRateSchedule::cosine}}};
constexpr Choices<MixedPrecision, 2> kPrecisions{
    {{"no", MixedPrecision::no}, {"bf16", MixedPrecision::bf16}}};

OrderedJson early_stopping_value(const std::optional<EarlyStopping> &early_stopping) {
  if (!early_stopping) return nullptr;
  return {{"patience", early_stopping->patience}, {"min_delta", number_value(early_stopping->min_delta)}};
}

}  // namespace

std::string write_json(const OrderedJson &value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson number_value(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

OrderedJson number_value(const std::optional<double> &number) {
  return number ? number_value(*number) : OrderedJson(nullptr);
}

std::optional<double> number_of(const nlohmann::json &value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

OrderedJson text_or_null(const std::string &text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

OrderedJson training_config_value(const TrainingConfig &config) {
  return {{"epochs", config.epochs},
          {"batch_size", config.batch_size},
          {"learning_rate", number_value(config.learning_rate)},
          {"optimizer", optimizer_name(config.optimizer)},
          {"momentum", number_value(config.momentum)},
          {"weight_decay", number_value(config.weight_decay)},
          {"warmup_steps", config.warmup_steps},
          {"lr_schedule", lr_schedule_name(config.lr_schedule)},
          {"max_grad_norm", number_value(config.max_grad_norm)},
          {"mixed_precision", mixed_precision_name(config.mixed_precision)},
          {"use_peft", config.use_peft},
          {"lora_r", config.lora_r},
          {"lora_alpha", number_value(config.lora_alpha)},
          {"threads", config.threads},
          {"early_stopping", early_stopping_value(config.early_stopping)}};
}

void read_training_config(ObjectReader &reader, TrainingConfig &config) {
  reader.read_whole("epochs", config.epochs, core::kEpochsRange, Presence::optional);
  reader.read_whole("batch_size", config.batch_size, core::kBatchSizeRange, Presence::optional);
  reader.read("learning_rate", config.learning_rate, Presence::optional);
  reader.read_choice("optimizer", config.optimizer, kOptimizers, Presence::optional);
  reader.read("momentum", config.momentum, Presence::optional);
  reader.read("weight_decay", config.weight_decay, Presence::optional);
  reader.read_whole("warmup_steps", config.warmup_steps, core::kWarmupStepsRange, Presence::optional);
  reader.read_choice("lr_schedule", config.lr_schedule, kSchedules, Presence::optional);
  reader.read("max_grad_norm", config.max_grad_norm, Presence::optional);
  reader.read_choice("mixed_precision", config.mixed_precision, kPrecisions, Presence::optional);
  reader.read("use_peft", config.use_peft, Presence::optional);
  reader.read_whole("lora_r", config.lora_r, core::kLoraRankRange, Presence::optional);
  reader.read("lora_alpha", config.lora_alpha, Presence::optional);
  reader.read_whole("threads", config.threads, core::kThreadsRange, Presence::optional);
  if (auto section = reader.object("early_stopping", Presence::nullable)) {
    EarlyStopping &early_stopping = config.early_stopping.emplace();
    section->read_whole("patience", early_stopping.patience, core::kPatienceRange, Presence::optional);
    section->read("min_delta", early_stopping.min_delta, Presence::optional);
    section->finish();
  }
  reader.finish();
}

OrderedJson evaluation_value(const std::optional<Evaluation> &evaluation) {
  if (!evaluation) return nullptr;
  return {{"loss", number_value(evaluation->loss)},
          {"accuracy", number_value(evaluation->accuracy)},
          {"num_examples", evaluation->num_examples}};
}

void read_evaluation(ObjectReader &parent, std::string_view name, std::optional<Evaluation> &out) {
  auto reader = parent.object(name, Presence::nullable);
  if (!reader) return;
  Evaluation &evaluation = out.emplace();
  reader->read("loss", evaluation.loss, Presence::required);
  reader->read("accuracy", evaluation.accuracy);
  reader->read_whole("num_examples", evaluation.num_examples, {}, Presence::required);
  reader->finish();
  // A training is worth more than a wrong figure beside it.
  evaluation = core::without_impossible_accuracy(evaluation);
}

OrderedJson capabilities_value(const TrainerCapabilities &capabilities) {
  return {{"model_kinds", capabilities.model_kinds},
          {"bf16", capabilities.bf16},
          {"lora", capabilities.lora},
          {"device", capabilities.device}};
}

OrderedJson local_datasets_value(const std::vector<LocalDataset> &datasets) {
  OrderedJson list = OrderedJson::array();
  for (const LocalDataset &dataset : datasets) {
    list.push_back({{"name", dataset.name}, {"num_examples", dataset.num_examples}});
  }
  return list;
}

}  // namespace parsyn::wire
