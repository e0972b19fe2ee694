#include "wire/resource_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "wire/job_document.hpp"

namespace {

using namespace parsyn;
using namespace parsyn::wire;
using nlohmann::json;

WorkerInfo some_worker() {
  WorkerInfo worker;
  worker.id = 5;
  worker.name = "worker";
  worker.kind = WorkerKind::parsyn;
  worker.live = true;
  worker.created_ms = 100;
  worker.seen_ms = 200;
  worker.capabilities = TrainerCapabilities{{"mlp"}, true, false, "cpu"};
  worker.local_datasets = {{"mine", 12}};
  return worker;
}

JobStatus some_job() {
  JobStatus job;
  job.id = 9;
  job.config.name = "job";
  job.config.dataset_id = 1;
  job.config.model_id = 2;
  job.config.seed = UINT64_MAX;
  job.config.distributed = DistributedConfig{};
  job.state = JobState::running;
  job.reason = "round 2 is open";
  job.round = 2;
  job.num_rounds = 10;
  job.deadline_seconds = 12.5;
  job.notices = {"small data"};
  job.partitioner = "even/1";
  RoundRecord record;
  record.round = 1;
  record.succeeded = true;
  record.train_loss = 0.5;
  record.validation = Evaluation{0.25, 0.75, 100};
  record.model_key = "jobs/9/rounds/1/global.safetensors";
  record.contributions.push_back({5, 50, "valid", "", 0.5, std::nullopt, Evaluation{0.3, std::nullopt, 100}});
  job.rounds.push_back(record);
  WorkerProgress progress;
  progress.worker_id = 5;
  progress.state = "training";
  progress.partition = 0;
  job.workers.push_back(progress);
  return job;
}

}  // namespace

TEST_CASE("a worker's document has every field, and credentials add the token") {
  const json worker = json::parse(worker_json(some_worker()));
  CHECK(worker ==
        json::parse(R"({"id":5,"name":"worker","kind":"parsyn","live":true,"created_ms":100,"seen_ms":200,
      "capabilities":{"model_kinds":["mlp"],"bf16":true,"lora":false,"device":"cpu"},
      "local_datasets":[{"name":"mine","num_examples":12}]})"));
  CHECK_FALSE(worker.contains("token"));

  json credentials = json::parse(credentials_json({some_worker(), "secret"}));
  CHECK(credentials["token"] == "secret");
  credentials.erase("token");
  CHECK(credentials == worker);

  const json fresh = json::parse(worker_json(WorkerInfo{}));
  CHECK(fresh["seen_ms"].is_null());
  CHECK(fresh["capabilities"].is_null());
  CHECK(fresh["local_datasets"] == json::array());
}

TEST_CASE("a dataset's document tells its shapes, and label bounds for class labels only") {
  DatasetInfo dataset;
  dataset.id = 1;
  dataset.name = "digits";
  dataset.train = DatasetShape{60'000, Dtype::u8, {28, 28}, Dtype::i64, {}, 0, 9};
  dataset.validation = DatasetShape{10, Dtype::f32, {3}, Dtype::f32, {2}, 0, 0};
  const json document = json::parse(dataset_json(dataset));
  CHECK(document["train"] ==
        json::parse(R"({"num_examples":60000,"x_dtype":"U8","input_shape":[28,28],"y_dtype":"I64",
      "target_shape":[],"label_min":0,"label_max":9})"));
  CHECK(document["validation"]["label_max"].is_null());
  CHECK(document["validation"]["target_shape"] == json::array({2}));

  dataset.local = true;
  dataset.train.reset();
  CHECK(json::parse(dataset_json(dataset))["train"].is_null());
}

TEST_CASE("a model's document has its description and digests, without keys of the store") {
  ModelInfo model;
  model.id = 2;
  model.name = "model";
  model.description.kind = "torchscript";
  model.description.module_key = "models/2/module.pt";
  model.description.module_sha256 = "ab";
  model.num_parameters = 199'210;
  const std::string text = model_json(model);
  const json document = json::parse(text);
  CHECK(document["kind"] == "torchscript");
  CHECK(document["module_sha256"] == "ab");
  CHECK(document["weights_sha256"].is_null());
  CHECK(document["num_parameters"] == 199'210);
  CHECK(text.find("module.pt") == std::string::npos);
}

TEST_CASE("a job's document has the request's fields beside those of the status") {
  const JobStatus job = some_job();
  const json document = json::parse(job_json(job));
  const json request = json::parse(job_config_json(job.config));
  for (const auto &[name, value] : request.items()) {
    INFO(name);
    CHECK(document[name] == value);
  }
  CHECK(document["id"] == 9);
  CHECK(document["state"] == "running");
  CHECK(document["seed"] == UINT64_MAX);
  CHECK(document["deadline_seconds"] == 12.5);
  CHECK(document["started_ms"].is_null());
  CHECK(document["best_round"].is_null());
  CHECK(document["rounds"][0]["validation"] ==
        json::parse(R"({"loss":0.25,"accuracy":0.75,"num_examples":100})"));
  CHECK(document["rounds"][0]["contributions"][0]["own"]["accuracy"].is_null());
  CHECK(document["rounds"][0]["contributions"][0]["received"].is_null());
  CHECK(document["rounds"][0]["model_sha256"].is_null());
  CHECK(document["workers"][0]["partition"] == 0);
  CHECK(document["workers"][0]["last_loss"].is_null());

  json summary = json::parse(job_summary_json(job));
  CHECK_FALSE(summary.contains("rounds"));
  CHECK_FALSE(summary.contains("workers"));
  json shortened = document;
  shortened.erase("rounds");
  shortened.erase("workers");
  CHECK(summary == shortened);
}

TEST_CASE("an event is one object with its fields under data") {
  const Event event{
      3,
      9,
      1234,
      "round_closed",
      "round 1 closed",
      {{"round", std::int64_t{1}}, {"loss", 0.5}, {"best", HUGE_VAL}, {"worker", std::string("a\xFF")}}};
  CHECK(event_json(event) ==
        "{\"sequence\":3,\"job_id\":9,\"time_ms\":1234,\"type\":\"round_closed\","
        "\"text\":\"round 1 closed\",\"data\":{\"round\":1,\"loss\":0.5,\"best\":\"Infinity\","
        "\"worker\":\"a\xEF\xBF\xBD\"}}");
  CHECK(json::parse(event_json(Event{}))["data"] == json::object());
}

TEST_CASE("lists tell where the next page begins") {
  CHECK(list_json({}, std::nullopt) == R"({"items":[],"next":null})");
  CHECK(list_json({"{\"id\":1}", "{\"id\":2}"}, 2) == R"({"items":[{"id":1},{"id":2}],"next":2})");
  CHECK(losses_json({}) == R"({"items":[],"next":null})");
  CHECK(losses_json({}, LossPlace{3, 17}) == R"({"items":[],"next":"3-17"})");
}

TEST_CASE("the place where a page of losses ends is read as it was written, and nothing else is") {
  const auto place = parse_loss_place("3-17");
  REQUIRE(place.has_value());
  CHECK(place->round == 3);
  CHECK(place->worker_id == 17);
  for (const char *text :
       {"", "-", "3", "3-", "-17", "3-17-", "3-x", "3 -17", "4294967296-1", "-1-1", "3--17"}) {
    INFO(text);
    CHECK_FALSE(parse_loss_place(text).has_value());
  }
}

TEST_CASE("an object's document has its digest") {
  CHECK(object_json({"a/b", 3, "ff", "\"e\""}) == R"({"key":"a/b","bytes":3,"sha256":"ff","etag":"\"e\""})");
}

TEST_CASE("numbers are written so that the same double comes back") {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.125}) {
    const LossSeries series{1, 1, {{1, value}}};
    const double again = json::parse(losses_json({&series, 1}))["items"][0]["losses"][0].get<double>();
    CHECK(again == value);
    CHECK(std::signbit(again) == std::signbit(value));
  }
}
