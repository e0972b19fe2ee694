// The answer to a task poll, the largest of the worker protocol's messages (messages.hpp).
#include "wire/message_reader.hpp"
#include "wire/messages.hpp"
#include "wire/registry_documents.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {
namespace {

constexpr TextRule kWord{.bytes_max = 200};
constexpr TextRule kKey{.bytes_max = kKeyBytesMax, .bytes_min = 1};
constexpr TextRule kUrl{.bytes_max = kUrlBytesMax};

constexpr Choices<Task::Kind, 2> kTaskKinds{
    {{"train", Task::Kind::train}, {"evaluate", Task::Kind::evaluate}}};

OrderedJson object_value(const ObjectRef &object) {
  return {{"key", object.key}, {"bytes", object.bytes}, {"sha256", object.sha256}, {"url", object.url}};
}

OrderedJson object_value(const std::optional<ObjectRef> &object) {
  return object ? object_value(*object) : OrderedJson(nullptr);
}

OrderedJson upload_value(const std::optional<UploadSlot> &slot) {
  if (!slot) return nullptr;
  return {{"key", slot->key}, {"bytes_max", slot->bytes_max}, {"url", slot->url}};
}

OrderedJson model_value(const ModelDescription &model) {
  return {{"kind", model.kind}, {"sizes", model.sizes},           {"activation", model.activation},
          {"loss", model.loss}, {"module_key", model.module_key}, {"module_sha256", model.module_sha256}};
}

OrderedJson task_value(const Task &task) {
  const auto kind = std::find_if(kTaskKinds.begin(), kTaskKinds.end(),
                                 [&](const auto &choice) { return choice.second == task.kind; });
  return {{"kind", kind->first},
          {"task_id", task.task_id},
          {"job_id", task.job_id},
          {"job_name", task.job_name},
          {"round", task.round},
          {"num_rounds", task.num_rounds},
          {"steps", task.steps},
          {"first_step", task.first_step},
          {"total_steps", task.total_steps},
          {"seed", task.seed},
          {"num_examples", task.num_examples},
          {"model", model_value(task.model)},
          {"config", training_config_value(task.config)},
          {"global", object_value(task.global)},
          {"module", object_value(task.module)},
          {"train", object_value(task.train)},
          {"local_dataset", task.local_dataset},
          {"validation", object_value(task.validation)},
          {"upload", upload_value(task.upload)}};
}

void read_object(ObjectReader &reader, ObjectRef &object) {
  reader.read("key", object.key, kKey, Presence::required);
  reader.read_whole("bytes", object.bytes, kAnyCount, Presence::required);
  read_sha256(reader, "sha256", object.sha256, Presence::required);
  reader.read("url", object.url, kUrl, Presence::nullable);
}

void read_object(ObjectReader &parent, std::string_view name, std::optional<ObjectRef> &out) {
  if (auto reader = parent.object(name, Presence::nullable)) read_object(*reader, out.emplace());
}

void read_model(ObjectReader &reader, ModelDescription &model) {
  reader.read("kind", model.kind, kWord, Presence::required);
  reader.read_whole_list("sizes", model.sizes, {1, kLayerWidthMax}, kLayersMax, Presence::nullable);
  reader.read("activation", model.activation, kWord, Presence::optional);
  reader.read("loss", model.loss, kWord, Presence::optional);
  reader.read("module_key", model.module_key, {.bytes_max = kKeyBytesMax}, Presence::nullable);
  read_sha256(reader, "module_sha256", model.module_sha256, Presence::nullable);
}

void read_task(ObjectReader &reader, Task &task) {
  reader.read_choice("kind", task.kind, kTaskKinds, Presence::required);
  reader.read_whole("task_id", task.task_id, kAnyCount, Presence::required);
  reader.read_whole("job_id", task.job_id, core::kIdRange, Presence::required);
  reader.read("job_name", task.job_name, {.bytes_max = limits::kNameBytesMax}, Presence::required);
  reader.read_whole("round", task.round, kRoundRange, Presence::required);
  reader.read_whole("num_rounds", task.num_rounds, kRoundRange, Presence::required);
  reader.read_whole("steps", task.steps, kAnyCount, Presence::required);
  reader.read_whole("first_step", task.first_step, kAnyCount, Presence::required);
  reader.read_whole("total_steps", task.total_steps, kAnyCount, Presence::required);
  reader.read_whole("seed", task.seed, kAnyCount, Presence::required);
  reader.read_whole("num_examples", task.num_examples, kAnyCount, Presence::required);
  if (auto section = reader.object("model", Presence::required)) read_model(*section, task.model);
  if (auto section = reader.object("config", Presence::required)) read_training_config(*section, task.config);
  if (auto section = reader.object("global", Presence::required)) read_object(*section, task.global);
  read_object(reader, "module", task.module);
  read_object(reader, "train", task.train);
  reader.read("local_dataset", task.local_dataset, {.bytes_max = limits::kNameBytesMax}, Presence::nullable);
  read_object(reader, "validation", task.validation);
  if (auto section = reader.object("upload", Presence::nullable)) {
    UploadSlot &slot = task.upload.emplace();
    section->read("key", slot.key, kKey, Presence::required);
    section->read_whole("bytes_max", slot.bytes_max, kAnyCount, Presence::required);
    section->read("url", slot.url, kUrl, Presence::nullable);
  }
}

}  // namespace

std::string encode(const std::optional<Task> &task) {
  OrderedJson document = OrderedJson::object();
  document["task"] = task ? task_value(*task) : OrderedJson(nullptr);
  return write_json(document);
}

std::optional<Task> decode_task_answer(std::string_view text) {
  return decode_message<std::optional<Task>>(
      "task", text, [](ObjectReader &reader, std::optional<Task> &task) {
        // A coordinator that leaves "task" out has said nothing: only null means that there is none.
        const nlohmann::json *value = reader.find("task", Presence::required);
        if (value == nullptr || value->is_null()) return;
        ObjectReader fields(*value, "task", reader.faults(), UnknownFields::ignored);
        read_task(fields, task.emplace());
      });
}

}  // namespace parsyn::wire
