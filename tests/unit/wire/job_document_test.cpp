#include "wire/job_document.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "parsyn/limits.hpp"
#include "support/catch.hpp"

namespace {

using namespace parsyn;
using wire::parse_job;

std::vector<std::string> fields_of(const std::vector<Fault> &faults) {
  std::vector<std::string> fields;
  for (const Fault &fault : faults) fields.push_back(fault.field + " " + fault.code);
  std::sort(fields.begin(), fields.end());
  return fields;
}

/// A job whose sections are these.
std::string job_with(const std::string &sections) {
  return R"({"name":"j","dataset_id":1,"model_id":2)" + (sections.empty() ? "" : "," + sections) + "}";
}

std::vector<std::string> faults_of(const std::string &text) { return fields_of(parse_job(text).faults); }

using Fields = std::vector<std::string>;

}  // namespace

TEST_CASE(
    "distributed absent is disabled, present without enabled is enabled, worker_selection absent is auto") {
  const auto absent = parse_job(job_with(""));
  REQUIRE(absent.faults.empty());
  CHECK_FALSE(absent.value.is_distributed());
  CHECK(absent.value.worker_selection == WorkerSelection{});
  CHECK(absent.value.config == TrainingConfig{});

  const auto null = parse_job(job_with(R"("distributed":null)"));
  REQUIRE(null.faults.empty());
  CHECK_FALSE(null.value.distributed.has_value());

  const auto present = parse_job(job_with(R"("distributed":{})"));
  REQUIRE(present.faults.empty());
  CHECK(present.value.is_distributed());
  CHECK(*present.value.distributed == DistributedConfig{});

  const auto disabled = parse_job(job_with(R"("distributed":{"enabled":false})"));
  REQUIRE(disabled.faults.empty());
  CHECK_FALSE(disabled.value.is_distributed());
}

TEST_CASE("every field of a job is read") {
  const auto parsed = parse_job(R"({
    "name": "all", "dataset_id": 3, "model_id": 4, "seed": 18446744073709551615,
    "config": {"epochs": 2, "batch_size": 10, "learning_rate": 0.05, "optimizer": "adamw", "momentum": 0.9,
               "weight_decay": 0.01, "warmup_steps": 100, "lr_schedule": "cosine", "max_grad_norm": 1,
               "mixed_precision": "bf16", "use_peft": true, "lora_r": 8, "lora_alpha": 24.5, "threads": 3,
               "early_stopping": {"patience": 7, "min_delta": 0.125}},
    "distributed": {"enabled": true, "strategy": "federated_averaging", "num_rounds": 11, "steps_per_round": 12,
                    "min_workers": 2, "max_workers": 3, "aggregation_timeout": 13, "fault_tolerance": 14,
                    "partitioning": {"kind": "shards", "alpha": 0.25, "shards_per_worker": 5}},
    "worker_selection": {"mode": "mixed", "worker_ids": [5, 6], "parsyn_worker_ids": [7]}})");
  REQUIRE(parsed.faults.empty());

  JobConfig expected;
  expected.name = "all";
  expected.dataset_id = 3;
  expected.model_id = 4;
  expected.seed = UINT64_MAX;
  expected.config.epochs = 2;
  expected.config.batch_size = 10;
  expected.config.learning_rate = 0.05;
  expected.config.optimizer = Optimizer::adamw;
  expected.config.momentum = 0.9;
  expected.config.weight_decay = 0.01;
  expected.config.warmup_steps = 100;
  expected.config.lr_schedule = LearningRateSchedule::cosine;
  expected.config.max_grad_norm = 1;
  expected.config.mixed_precision = MixedPrecision::bf16;
  expected.config.use_peft = true;
  expected.config.lora_r = 8;
  expected.config.lora_alpha = 24.5;
  expected.config.threads = 3;
  expected.config.early_stopping = EarlyStopping{7, 0.125};
  expected.distributed = DistributedConfig{
      true, "federated_averaging", 11, 12, 2, 3, 13, 14, PartitioningConfig{"shards", 0.25, 5}};
  expected.worker_selection = WorkerSelection{SelectionMode::mixed, {5, 6}, {7}};
  CHECK(parsed.value == expected);

  SECTION("and written, so that it reads back as it was") {
    const auto again = parse_job(wire::job_config_json(expected));
    CHECK(again.faults.empty());
    CHECK(again.value == expected);
  }
}

TEST_CASE("a job that is written complete reads back as it was, with what was absent absent") {
  JobConfig job;
  job.name = "a \"quoted\" \xE6\x97\xA5";
  job.dataset_id = 1;
  job.model_id = UINT64_MAX;
  job.config.learning_rate = 0.1 + 0.2;
  const std::string text = wire::job_config_json(job);
  CHECK(text.find("\"distributed\":null") != std::string::npos);
  CHECK(text.find("\"epochs\":1") != std::string::npos);
  CHECK(text.find("\"early_stopping\":null") != std::string::npos);
  const auto again = parse_job(text);
  CHECK(again.faults.empty());
  CHECK(again.value == job);
}

TEST_CASE("writing a job never throws, whatever its texts and numbers hold") {
  JobConfig job;
  job.name = "\xFF\xFE";
  job.dataset_id = 1;
  job.model_id = 1;
  job.config.learning_rate = std::nan("");
  job.config.weight_decay = HUGE_VAL;
  const std::string text = wire::job_config_json(job);
  CHECK(text.find("\xEF\xBF\xBD") != std::string::npos);
  CHECK(text.find("\"learning_rate\":\"NaN\"") != std::string::npos);
  CHECK(text.find("\"weight_decay\":\"Infinity\"") != std::string::npos);
  CHECK(faults_of(text) == Fields{"config.learning_rate range", "config.weight_decay range"});
}

TEST_CASE("all faults of a document are told at once, each at its field") {
  const auto faults = faults_of(R"({
    "dataset_id": "1", "model": 2,
    "config": {"epochs": 0, "lr": 1, "optimizer": "lion", "use_peft": 1, "early_stopping": {"patience": -1}},
    "distributed": {"strategy": "fedprox", "num_rounds": null, "min_workers": 9, "max_workers": 3},
    "worker_selection": {"mode": "mixed", "worker_ids": [1, 0, "3", 1]}})");
  CHECK(faults == Fields{"config.early_stopping.patience range", "config.epochs range",
                         "config.lr unknown_field", "config.optimizer unknown_value", "config.use_peft type",
                         "dataset_id type", "distributed.min_workers contradiction",
                         "distributed.num_rounds type", "distributed.strategy unknown_value",
                         "model unknown_field", "model_id required", "name required",
                         "worker_selection.worker_ids[1] range", "worker_selection.worker_ids[2] type",
                         "worker_selection.worker_ids[3] duplicate_id"});
}

TEST_CASE("a field that could not be read has one fault, and nothing is compared with its default") {
  CHECK(faults_of(job_with(R"("distributed":{"max_workers":"x","min_workers":8})")) ==
        Fields{"distributed.max_workers type"});
  CHECK(faults_of(job_with(R"("worker_selection":{"mode":"owned","worker_ids":[1]})")) ==
        Fields{"worker_selection.mode unknown_value"});
  CHECK(faults_of(job_with(R"("worker_selection":{"mode":"own","worker_ids":["a"]})")) ==
        Fields{"worker_selection.worker_ids[0] type"});
  CHECK(faults_of(job_with(R"("distributed":[])")) == Fields{"distributed type"});
}

TEST_CASE("what could not be read is told apart from what is wrong with what was read") {
  const auto parsed = parse_job(
      job_with(R"("distributed":{"min_workers":"3","max_workers":2,"fault_tolerance":-1},"colour":1,)"
               R"("worker_selection":{"mode":"own"})"));
  CHECK(fields_of(parsed.faults).size() == 4);
  auto unread = parsed.unread;
  std::sort(unread.begin(), unread.end());
  CHECK(unread == Fields{"colour", "distributed.fault_tolerance", "distributed.min_workers"});
  CHECK(parse_job(job_with("")).unread.empty());
  CHECK(parse_job("{").unread == Fields{""});
}

TEST_CASE("a contradiction is told beside the faults of other fields") {
  CHECK(faults_of(job_with(R"("distributed":{"num_rounds":0,"min_workers":8,"max_workers":3})")) ==
        Fields{"distributed.min_workers contradiction", "distributed.num_rounds range"});
}

TEST_CASE("an unknown field is refused with the names of those that exist") {
  const auto parsed = parse_job(job_with(R"("distributed":{"num_round":3})"));
  REQUIRE(parsed.faults.size() == 1);
  CHECK(parsed.faults[0].field == "distributed.num_round");
  CHECK(parsed.faults[0].message.find("num_rounds") != std::string::npos);
}

TEST_CASE("another strategy is refused by name") {
  const auto parsed = parse_job(job_with(R"("distributed":{"strategy":"fedprox"})"));
  REQUIRE(parsed.faults.size() == 1);
  CHECK(parsed.faults[0].message.find("fedprox is not available; use federated_averaging") !=
        std::string::npos);
}

TEST_CASE("a body that is no object is refused as a whole") {
  CHECK(faults_of("") == Fields{" json"});
  CHECK(faults_of("  \n") == Fields{" json"});
  CHECK(faults_of("[1]") == Fields{" type"});
  CHECK(faults_of("null") == Fields{" type"});
  CHECK(faults_of("{\"name\":\"j\"} x") == Fields{" json"});
  CHECK(faults_of("{'name':1}") == Fields{" json"});
  CHECK(parse_job("{\n \"a\": }").faults[0].message.find("line 2") != std::string::npos);
  CHECK(faults_of(std::string(limits::kHttpJsonBytesMax + 1, ' ')) == Fields{" json"});
}

TEST_CASE("an answer lists a bounded number of faults and tells how many more there are") {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += "\"x" + std::to_string(i) + "\":1,";
  const auto parsed = parse_job(text + "\"name\":\"j\",\"dataset_id\":1,\"model_id\":1}");
  REQUIRE(parsed.faults.size() == 101);
  CHECK(parsed.faults.back().code == "too_many");
  CHECK(parsed.faults.back().message.find("900") != std::string::npos);
}

TEST_CASE("a refusal names the document and its faults") {
  const Error error = wire::refusal("training job", parse_job("{}").faults);
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(error.message().find("training job") != std::string::npos);
  CHECK(error.message().find("name is missing") != std::string::npos);
  CHECK(error.faults().size() == 3);
  CHECK_THROWS_AS(wire::value_or_throw(parse_job("{}"), "training job"), Error);
  CHECK(wire::value_or_throw(parse_job(job_with("")), "training job").name == "j");
}
