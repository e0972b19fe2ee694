#include "wire/resource_json.hpp"

#include <algorithm>

#include "text/encoding.hpp"
#include "wire/job_values.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {
namespace {

OrderedJson worker_value(const WorkerInfo &worker) {
  return {
      {"id", worker.id},
      {"name", worker.name},
      {"kind", worker_kind_name(worker.kind)},
      {"live", worker.live},
      {"created_ms", worker.created_ms},
      {"seen_ms", nullable(worker.seen_ms)},
      {"capabilities", worker.capabilities ? capabilities_value(*worker.capabilities) : OrderedJson(nullptr)},
      {"local_datasets", local_datasets_value(worker.local_datasets)}};
}

OrderedJson shape_value(const std::optional<DatasetShape> &shape) {
  if (!shape) return nullptr;
  const bool class_labels = shape->y_dtype == Dtype::i64 && shape->target_shape.empty();
  return {{"num_examples", shape->num_examples},
          {"x_dtype", dtype_name(shape->x_dtype)},
          {"input_shape", shape->input_shape},
          {"y_dtype", dtype_name(shape->y_dtype)},
          {"target_shape", shape->target_shape},
          {"label_min", class_labels ? OrderedJson(shape->label_min) : OrderedJson(nullptr)},
          {"label_max", class_labels ? OrderedJson(shape->label_max) : OrderedJson(nullptr)}};
}

OrderedJson progress_value(const WorkerProgress &progress) {
  return {{"worker_id", progress.worker_id},
          {"name", progress.name},
          {"live", progress.live},
          {"state", progress.state},
          {"reason", progress.reason},
          {"phase", progress.phase},
          {"step", progress.step},
          {"steps", progress.steps},
          {"examples_per_second", number_value(progress.examples_per_second)},
          {"stalled", progress.stalled},
          {"last_loss", number_value(progress.last_loss)},
          {"partition", nullable(progress.partition)},
          {"num_examples", progress.num_examples}};
}

OrderedJson contribution_value(const Contribution &contribution) {
  return {{"worker_id", contribution.worker_id},
          {"num_examples", contribution.num_examples},
          {"state", contribution.state},
          {"reason", contribution.reason},
          {"train_loss", number_value(contribution.train_loss)},
          {"received", evaluation_value(contribution.received)},
          {"own", evaluation_value(contribution.own)}};
}

OrderedJson round_value(const RoundRecord &record) {
  OrderedJson contributions = OrderedJson::array();
  for (const Contribution &contribution : record.contributions) {
    contributions.push_back(contribution_value(contribution));
  }
  return {{"round", record.round},
          {"failed_attempts", record.failed_attempts},
          {"succeeded", record.succeeded},
          {"reason", record.reason},
          {"seconds", number_value(record.seconds)},
          {"examples", record.examples},
          {"examples_total", record.examples_total},
          {"train_loss", number_value(record.train_loss)},
          {"validation", evaluation_value(record.validation)},
          {"model_key", text_or_null(record.model_key)},
          {"model_sha256", text_or_null(record.model_sha256)},
          {"model_bytes", record.model_bytes},
          {"contributions", std::move(contributions)}};
}

OrderedJson job_value(const JobStatus &job) {
  OrderedJson value{{"id", job.id},
                    {"state", job_state_name(job.state)},
                    {"reason", job.reason},
                    {"stopping", job.stopping},
                    {"round", job.round},
                    {"num_rounds", job.num_rounds},
                    {"failed_rounds_in_a_row", job.failed_rounds_in_a_row},
                    {"created_ms", job.created_ms},
                    {"started_ms", nullable(job.started_ms)},
                    {"ended_ms", nullable(job.ended_ms)},
                    {"deadline_seconds", number_value(job.deadline_seconds)},
                    {"notices", job.notices},
                    {"partitioner", job.partitioner},
                    {"initial", evaluation_value(job.initial)},
                    {"best_round", nullable(job.best_round)},
                    {"final_validation", evaluation_value(job.final_validation)}};
  value.update(job_config_value(job.config));
  return value;
}

}  // namespace

std::string worker_json(const WorkerInfo &worker) { return write_json(worker_value(worker)); }

std::string credentials_json(const WorkerCredentials &credentials) {
  OrderedJson value = worker_value(credentials.worker);
  value["token"] = credentials.token;
  return write_json(value);
}

std::string dataset_json(const DatasetInfo &dataset) {
  return write_json({{"id", dataset.id},
                     {"name", dataset.name},
                     {"local", dataset.local},
                     {"created_ms", dataset.created_ms},
                     {"train", shape_value(dataset.train)},
                     {"validation", shape_value(dataset.validation)}});
}

std::string model_json(const ModelInfo &model) {
  return write_json({{"id", model.id},
                     {"name", model.name},
                     {"created_ms", model.created_ms},
                     {"kind", model.description.kind},
                     {"sizes", model.description.sizes},
                     {"activation", model.description.activation},
                     {"loss", model.description.loss},
                     {"num_parameters", model.num_parameters},
                     {"weights_sha256", text_or_null(model.weights_sha256)},
                     {"module_sha256", text_or_null(model.description.module_sha256)}});
}

std::string job_json(const JobStatus &job) {
  OrderedJson rounds = OrderedJson::array();
  for (const RoundRecord &record : job.rounds) rounds.push_back(round_value(record));
  OrderedJson workers = OrderedJson::array();
  for (const WorkerProgress &progress : job.workers) workers.push_back(progress_value(progress));
  OrderedJson value = job_value(job);
  value["rounds"] = std::move(rounds);
  value["workers"] = std::move(workers);
  return write_json(value);
}

std::string job_summary_json(const JobStatus &job) { return write_json(job_value(job)); }

std::string event_json(const Event &event) {
  OrderedJson data = OrderedJson::object();
  for (const auto &[name, value] : event.fields) {
    if (const auto *number = std::get_if<double>(&value)) {
      data[name] = number_value(*number);
    } else if (const auto *whole = std::get_if<std::int64_t>(&value)) {
      data[name] = *whole;
    } else {
      data[name] = std::get<std::string>(value);
    }
  }
  return write_json({{"sequence", event.sequence},
                     {"job_id", event.job_id},
                     {"time_ms", event.time_ms},
                     {"type", event.type},
                     {"text", event.text},
                     {"data", std::move(data)}});
}

std::string losses_json(std::span<const LossSeries> series, const std::optional<LossPlace> &next) {
  OrderedJson items = OrderedJson::array();
  for (const LossSeries &one : series) {
    OrderedJson steps = OrderedJson::array();
    OrderedJson losses = OrderedJson::array();
    for (const auto &[step, loss] : one.losses) {
      steps.push_back(step);
      losses.push_back(number_value(loss));
    }
    items.push_back({{"worker_id", one.worker_id},
                     {"round", one.round},
                     {"steps", std::move(steps)},
                     {"losses", std::move(losses)}});
  }
  OrderedJson document = OrderedJson::object();
  document["items"] = std::move(items);
  document["next"] = next ? OrderedJson(std::to_string(next->round) + "-" + std::to_string(next->worker_id))
                          : OrderedJson(nullptr);
  return write_json(document);
}

std::optional<LossPlace> parse_loss_place(std::string_view text) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto round = text::parse_u64(text.substr(0, dash));
  const auto worker = text::parse_u64(text.substr(std::min(dash + 1, text.size())));
  if (!round || !worker || *round > limits::kRoundsMax) return std::nullopt;
  return LossPlace{static_cast<std::uint32_t>(*round), *worker};
}

std::string object_json(const ObjectInfo &object) {
  return write_json(
      {{"key", object.key}, {"bytes", object.bytes}, {"sha256", object.sha256}, {"etag", object.etag}});
}

std::string list_json(const std::vector<std::string> &items, std::optional<std::uint64_t> next) {
  std::string text = "{\"items\":[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ',';
    text += items[i];
  }
  return text + "],\"next\":" + (next ? std::to_string(*next) : "null") + "}";
}

}  // namespace parsyn::wire
