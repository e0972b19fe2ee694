#include "wire/openapi.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "parsyn/error.hpp"
#include "support/catch.hpp"
#include "wire/job_document.hpp"
#include "wire/messages.hpp"
#include "wire/registry_documents.hpp"
#include "wire/resource_json.hpp"

namespace {

using namespace parsyn;
using nlohmann::json;

const json &document() {
  static const json parsed = json::parse(wire::openapi_document());
  return parsed;
}

const json &schema(const std::string &name) { return document()["components"]["schemas"].at(name); }

std::set<std::string> keys_of(const json &object) {
  std::set<std::string> keys;
  for (const auto &member : object.items()) keys.insert(member.key());
  return keys;
}

/// The section's C++ defaults, as a whole job is written.
json written_defaults() {
  JobConfig job;
  job.distributed.emplace();
  job.config.early_stopping.emplace();
  return json::parse(wire::job_config_json(job));
}

void compare_defaults(const std::string &name, const json &written) {
  INFO(name);
  const json &properties = schema(name)["properties"];
  CHECK(keys_of(properties) == keys_of(written));
  for (const auto &[field, value] : written.items()) {
    INFO(field);
    REQUIRE(properties.contains(field));
    if (properties[field].contains("$ref")) continue;  // a section, compared by itself
    REQUIRE(properties[field].contains("default"));
    CHECK(properties[field]["default"] == value);
  }
}

/// Every "$ref" below `value`.
void collect_references(const json &value, std::set<std::string> &references) {
  if (value.is_object() && value.contains("$ref")) references.insert(value["$ref"].get<std::string>());
  if (!value.is_structured()) return;
  for (const json &element : value) collect_references(element, references);
}

}  // namespace

TEST_CASE("the served document is docs/openapi.json, byte for byte") {
  std::ifstream file(std::string(PARSYN_TEST_DATA) + "/../docs/openapi.json", std::ios::binary);
  REQUIRE(file.good());
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  CHECK(wire::openapi_document() == text);
  CHECK(document()["openapi"] == "3.1.0");
}

TEST_CASE("the documented defaults of a job are those of the C++ contract") {
  json written = written_defaults();
  compare_defaults("EarlyStopping", written["config"]["early_stopping"]);
  compare_defaults("Partitioning", written["distributed"]["partitioning"]);
  written["config"]["early_stopping"] = nullptr;
  compare_defaults("TrainingConfig", written["config"]);
  compare_defaults("DistributedConfig", written["distributed"]);
  compare_defaults("WorkerSelection", written["worker_selection"]);
  CHECK(keys_of(schema("JobRequest")["properties"]) == keys_of(written));
}

TEST_CASE("the documented bounds of a job's numbers are those that are checked") {
  const auto check = [](const std::string &section, const std::string &name) {
    for (const auto &[field, property] : schema(name)["properties"].items()) {
      if (property.value("type", json()) != "integer") continue;
      INFO(section + "." + field);
      const auto faulty = [&](const json &value) {
        const json job{{"name", "j"}, {"dataset_id", 1}, {"model_id", 1}, {section, {{field, value}}}};
        const auto faults = wire::parse_job(job.dump()).faults;
        return !faults.empty() && faults[0].code == "range";
      };
      const auto min = property["minimum"].get<std::int64_t>();
      const auto max = property["maximum"].get<std::int64_t>();
      CHECK_FALSE(faulty(min));
      CHECK_FALSE(faulty(max));
      CHECK(faulty(min - 1));
      CHECK(faulty(max + 1));
    }
  };
  check("config", "TrainingConfig");
  check("distributed", "DistributedConfig");
}

TEST_CASE("the documented maximum of the learning rate is the one that is checked") {
  JobConfig job;
  job.name = "j";
  job.dataset_id = job.model_id = 1;
  job.config.learning_rate = schema("TrainingConfig")["properties"]["learning_rate"]["maximum"].get<double>();
  CHECK(check_job_config(job).empty());
  job.config.learning_rate = std::nextafter(job.config.learning_rate, HUGE_VAL);
  CHECK(check_job_config(job).size() == 1);
}

TEST_CASE("the documented fields of answers are those that are written") {
  const auto check = [](const std::string &name, const std::string &written) {
    INFO(name);
    CHECK(keys_of(schema(name)["properties"]) == keys_of(json::parse(written)));
  };
  JobStatus job;
  job.rounds.emplace_back().contributions.emplace_back();
  job.workers.emplace_back();
  job.initial = Evaluation{};
  check("Job", wire::job_json(job));
  check("JobSummary", wire::job_summary_json(job));
  const json written = json::parse(wire::job_json(job));
  check("RoundRecord", written["rounds"][0].dump());
  check("Contribution", written["rounds"][0]["contributions"][0].dump());
  check("WorkerProgress", written["workers"][0].dump());
  check("Evaluation", written["initial"].dump());
  check("Event", wire::event_json({}));
  check("Worker", wire::worker_json({}));
  check("WorkerCredentials", wire::credentials_json({}));
  DatasetInfo dataset;
  dataset.train.emplace();
  check("Dataset", wire::dataset_json(dataset));
  check("DatasetShape", json::parse(wire::dataset_json(dataset))["train"].dump());
  check("Model", wire::model_json({}));
  check("Object", wire::object_json({}));
  check("JobList", wire::list_json({}, 1));
  const LossSeries series;
  check("LossSeries", json::parse(wire::losses_json({&series, 1}))["items"][0].dump());

  Task task;
  task.upload.emplace();
  const json task_answer = json::parse(wire::encode(std::optional<Task>(task)));
  check("Task", task_answer["task"].dump());
  check("ObjectRef", task_answer["task"]["global"].dump());
  check("UploadSlot", task_answer["task"]["upload"].dump());
  check("ModelDescription", task_answer["task"]["model"].dump());
  check("SessionRequest", wire::encode(SessionRequest{}));
  check("SessionGrant", wire::encode(SessionGrant{}));
  check("TaskPoll", wire::encode(TaskPoll{}));
  check("Report", wire::encode(Report{}));
  check("ReportReceipt", wire::encode(ReportReceipt{}));
  check("Heartbeat", wire::encode(Heartbeat{}));
  check("TaskProgress", json::parse(wire::encode(Heartbeat{1, TaskProgress{}}))["progress"].dump());
  check("HeartbeatAnswer", wire::encode(HeartbeatAnswer{}));
  check("UrlRequest", wire::encode(wire::UrlRequest{}));
  check("UrlAnswer", wire::encode(wire::UrlAnswer{}));
}

TEST_CASE("the documented fields of a dataset and a model are those that are read") {
  const auto all_known = [](const std::string &name, const auto &parse, const std::string &inner = {}) {
    json body = json::object();
    for (const auto &member : schema(name)["properties"].items()) body[member.key()] = json::object();
    if (!inner.empty()) body = json{{inner, body}};
    for (const Fault &fault : parse(body.dump()).faults) {
      INFO(fault.message);
      CHECK(fault.code != "unknown_field");
    }
  };
  all_known("WorkerRequest", wire::parse_worker_spec);
  all_known("DatasetRequest", wire::parse_dataset_spec);
  all_known("DatasetFile", wire::parse_dataset_spec, "train");
  all_known("ModelRequest", wire::parse_model_spec);
}

TEST_CASE("every documented example of a job is accepted") {
  const json &examples = document()["paths"]["/api/v1/training-jobs"]["post"]["requestBody"]["content"]
                                   ["application/json"]["examples"];
  REQUIRE(examples.size() >= 3);
  for (const auto &[name, example] : examples.items()) {
    INFO(name);
    CHECK(wire::parse_job(example["value"].dump()).faults.empty());
  }
}

TEST_CASE("every reference of the document leads somewhere, and every schema is used") {
  std::set<std::string> references;
  collect_references(document(), references);
  for (const std::string &reference : references) {
    INFO(reference);
    CHECK(document().contains(json::json_pointer(reference.substr(1))));
  }
  for (const auto &member : document()["components"]["schemas"].items()) {
    INFO(member.key());
    CHECK(references.count("#/components/schemas/" + member.key()) == 1);
  }
}

TEST_CASE("every operation has an id of its own, an answer, and tells who may call it") {
  std::set<std::string> ids;
  for (const auto &[path, operations] : document()["paths"].items()) {
    INFO(path);
    for (const auto &[method, operation] : operations.items()) {
      CHECK(ids.insert(operation["operationId"].get<std::string>()).second);
      CHECK_FALSE(operation["responses"].empty());
      CHECK(operation["responses"].contains("default"));
      const bool worker = path.rfind("/api/v1/worker/", 0) == 0;
      const bool open = path == "/healthz" || path == "/readyz" || path.rfind("/api/v1/objects/", 0) == 0;
      if (worker) {
        CHECK(operation["security"][0].contains("workerToken"));
      } else if (open) {
        CHECK(operation["security"].empty());
      } else {
        CHECK_FALSE(operation.contains("security"));
      }
    }
  }
  CHECK(ids.size() == 29);
}
