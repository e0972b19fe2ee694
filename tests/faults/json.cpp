// Public failure reports of other software, by their numbers: JSON that a peer sends.
#include <cmath>
#include <string>

#include "support/catch.hpp"
#include "wire/job_document.hpp"
#include "wire/messages.hpp"
#include "wire/problem.hpp"
#include "wire/registry_documents.hpp"
#include "wire/resource_json.hpp"

namespace {

using namespace parsyn;
using wire::parse_job;

std::string job_with(const std::string &sections) {
  return R"({"name":"j","dataset_id":1,"model_id":2)" + (sections.empty() ? "" : "," + sections) + "}";
}

/// The field of the one fault that `text` has; "accepted" without one.
std::string refused_field(const std::string &text) {
  const auto faults = parse_job(text).faults;
  if (faults.empty()) return "accepted";
  CHECK(faults.size() == 1);
  return faults[0].field;
}

std::string rounds(const std::string &value) {
  return job_with("\"distributed\":{\"num_rounds\":" + value + "}");
}

bool refused_by_decoder(const std::string &text) {
  try {
    wire::decode_report(text);
    return false;
  } catch (const Error &error) {
    return error.code() == ErrorCode::invalid_argument && !error.faults().empty();
  }
}

std::string report_with(const std::string &num_examples, const std::string &failure = "\"\"") {
  return R"({"lease":1,"task_id":1,"job_id":1,"round":1,"num_examples":)" + num_examples +
         ",\"failure\":" + failure + "}";
}

}  // namespace

TEST_CASE("fault 20: a count that is negative, fractional or too large is refused, and never wraps") {
  CHECK(wire::decode_report(report_with("1500000000")).num_examples == 1'500'000'000U);
  CHECK(wire::decode_report(report_with("3000000000")).num_examples == 3'000'000'000U);
  for (const char *count : {"-5", "2.5", "1e300", "18446744073709551616", "\"5\"", "true", "null", "1e400"}) {
    INFO(count);
    CHECK(refused_by_decoder(report_with(count)));
  }
}

TEST_CASE("fault 65: seed 0 is a seed; absent and null are drawn") {
  const auto zero = parse_job(job_with("\"seed\":0"));
  REQUIRE(zero.faults.empty());
  CHECK(zero.value.seed == std::optional<std::uint64_t>(0));
  CHECK_FALSE(parse_job(job_with("")).value.seed.has_value());
  const auto null = parse_job(job_with("\"seed\":null"));
  REQUIRE(null.faults.empty());
  CHECK_FALSE(null.value.seed.has_value());
  CHECK(parse_job(job_with("\"seed\":18446744073709551615")).value.seed ==
        std::optional<std::uint64_t>(UINT64_MAX));
  CHECK(refused_field(job_with("\"seed\":18446744073709551616")) == "seed");
  CHECK(refused_field(job_with("\"seed\":-1")) == "seed");
}

TEST_CASE(
    "fault 127: each field of a job that is missing, null, of a wrong type or out of range is refused by its "
    "name") {
  struct Field {
    const char *section;
    const char *name;
    bool may_be_zero;
    bool may_be_huge;
  };
  const std::vector<Field> numbers{
      {"config", "epochs", false, false},
      {"config", "batch_size", false, false},
      {"config", "learning_rate", false, true},
      {"config", "momentum", true, false},
      {"config", "weight_decay", true, true},
      {"config", "warmup_steps", true, false},
      {"config", "max_grad_norm", true, true},
      {"config", "lora_r", false, false},
      {"config", "lora_alpha", false, true},
      {"config", "threads", false, false},
      {"distributed", "num_rounds", false, false},
      {"distributed", "steps_per_round", false, false},
      {"distributed", "min_workers", false, false},
      {"distributed", "max_workers", false, false},
      {"distributed", "aggregation_timeout", false, false},
      {"distributed", "fault_tolerance", true, false},
  };
  for (const Field &field : numbers) {
    const std::string path = std::string(field.section) + "." + field.name;
    const auto with = [&](const std::string &value) {
      return job_with(std::string("\"") + std::string(field.section) + "\":{\"" + field.name + "\":" + value +
                      "}");
    };
    INFO(path);
    for (const char *value : {"null", "\"1\"", "true", "[]", "{}", "-1"})
      CHECK(refused_field(with(value)) == path);
    if (!field.may_be_zero) CHECK(refused_field(with("0")) == path);
    if (!field.may_be_huge) CHECK(refused_field(with("4294967296000000000")) == path);
  }
  for (const char *section : {"config", "distributed", "worker_selection"}) {
    for (const char *value : {"1", "\"x\"", "[]", "true"}) {
      CHECK(refused_field(job_with(std::string("\"") + std::string(section) + "\":" + value)) == section);
    }
    CHECK(refused_field(job_with(std::string("\"") + std::string(section) + "\":{\"unknown\":1}")) ==
          std::string(section) + ".unknown");
  }
  CHECK(refused_field(R"({"dataset_id":1,"model_id":2})") == "name");
  CHECK(refused_field(R"({"name":"j","model_id":2})") == "dataset_id");
  CHECK(refused_field(R"({"name":"j","dataset_id":1})") == "model_id");
  for (const char *value : {"null", "1", "\"\"", "[]", "\"a\\u0000b\""}) {
    CHECK(refused_field(R"({"dataset_id":1,"model_id":2,"name":)" + std::string(value) + "}") == "name");
  }
  for (const char *value : {"null", "0", "-1", "1.5", "\"1\"", "18446744073709551616"}) {
    CHECK(refused_field(R"({"name":"j","model_id":2,"dataset_id":)" + std::string(value) + "}") ==
          "dataset_id");
  }
  CHECK(refused_field("") == "");
}

TEST_CASE("fault 128: a loss of NaN keeps its value in every document, and every document is read back") {
  Report report;
  report.lease = 1;
  report.train_loss = std::nan("");
  report.own = Evaluation{std::nan(""), std::nullopt, 6};
  const Report again = wire::decode_report(wire::encode(report));
  CHECK(std::isnan(again.train_loss.value()));
  CHECK(std::isnan(again.own.value().loss));
  CHECK(again.own->num_examples == 6);

  JobStatus job;
  job.final_validation = Evaluation{std::nan(""), std::nullopt, 1};
  CHECK(wire::job_json(job).find("\"final_validation\":{\"loss\":\"NaN\"") != std::string::npos);
}

TEST_CASE("fault 129: a key that appears twice is refused by name") {
  const auto faults = parse_job(job_with(R"("distributed":{"num_rounds":3,"num_rounds":5})")).faults;
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].field == "distributed.num_rounds");
  CHECK(faults[0].code == "duplicate_key");
  CHECK(refused_field(job_with(R"("name":"k")")) == "name");
  CHECK(refused_field(job_with(R"("distributed":{"num_rounds":3,"num\u005frounds":5})")) ==
        "distributed.num_rounds");
}

TEST_CASE("fault 130: a number that does not fit is refused; 3.0 is 3") {
  for (const char *value : {"-1", "2.5", "1e400", "-1e400", "18446744073709551616", "\"3\"", "true",
                            "4294967297", "4294967299", "1e10", "9007199254740993.0"}) {
    INFO(value);
    CHECK(refused_field(rounds(value)) == "distributed.num_rounds");
  }
  for (const char *value : {"3", "3.0", "3e0", "0.3e1"}) {
    INFO(value);
    const auto parsed = parse_job(rounds(value));
    REQUIRE(parsed.faults.empty());
    CHECK(parsed.value.distributed->num_rounds == 3);
  }
  CHECK(refused_field(job_with(R"("config":{"learning_rate":1e400})")) == "config.learning_rate");
}

TEST_CASE("fault 131: text that is not UTF-8 is refused where it comes in, and cannot break an answer") {
  CHECK(refused_field("{\"name\":\"\xFF\xFE\",\"dataset_id\":1,\"model_id\":2}") == "");
  CHECK(refused_field(R"({"name":"\ud800","dataset_id":1,"model_id":2})") == "");
  CHECK(refused_field(R"({"name":"a\u0000b","dataset_id":1,"model_id":2})") == "name");
  CHECK(refused_by_decoder(report_with("1", "\"\xFF\xFE\"")));
  CHECK(refused_by_decoder(report_with("1", "\"\\udc00\"")));
  CHECK(wire::decode_report(report_with("1", "\"a\\u0000b\"")).failure == "a b");

  Report report;
  report.lease = 1;
  report.failure = "bad \xFF\xFE\x01 bytes";
  CHECK(wire::decode_report(wire::encode(report)).failure == "bad \xEF\xBF\xBD\xEF\xBF\xBD  bytes");
  JobStatus job;
  job.reason = "\xFF\xFE";
  job.workers.emplace_back().name = "\xC3\xC3";
  CHECK(wire::job_json(job).find("\xEF\xBF\xBD") != std::string::npos);
}

TEST_CASE("fault 132: deep nesting is refused by every reader, and the process lives") {
  const auto objects = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{\"a\":";
    return text;
  };
  const std::vector<std::string> attacks{std::string(100'000, '['), objects(100'000),
                                         std::string(512 * 1024, '[')};
  for (const std::string &attack : attacks) {
    for (const std::string &text : {attack, job_with("\"unknown\":" + attack)}) {
      const auto faults = parse_job(text).faults;
      REQUIRE(faults.size() == 1);
      CHECK(faults[0].code == "json");
      CHECK(faults[0].message.find("64") != std::string::npos);
      CHECK_FALSE(wire::parse_worker_spec(text).faults.empty());
      CHECK_FALSE(wire::parse_dataset_spec(text).faults.empty());
      CHECK_FALSE(wire::parse_model_spec(text).faults.empty());
      CHECK(refused_by_decoder(text));
      CHECK_THROWS_AS(wire::decode_session_request(text), Error);
      CHECK_THROWS_AS(wire::decode_task_answer(text), Error);
      CHECK_THROWS_AS(wire::decode_heartbeat(text), Error);
      CHECK(wire::error_from_problem(400, text).code() == ErrorCode::invalid_argument);
    }
  }
  // 64 levels are read: the unknown field is what is refused.
  const std::string deep = std::string(63, '[') + std::string(63, ']');
  CHECK(refused_field(job_with("\"unknown\":" + deep)) == "unknown");
  CHECK(refused_field(job_with("\"unknown\":[" + deep + "]")) == "");
}

TEST_CASE("fault 140: infinite and NaN losses of a heartbeat arrive as they were sent, and later ones too") {
  Heartbeat heartbeat{.lease = 1, .progress = TaskProgress{}};
  heartbeat.progress->phase = "training";
  heartbeat.progress->losses = {HUGE_VAL, -HUGE_VAL, std::nan(""), 0.5};
  const std::vector<double> losses = wire::decode_heartbeat(wire::encode(heartbeat)).progress.value().losses;
  REQUIRE(losses.size() == 4);
  CHECK(losses[0] == HUGE_VAL);
  CHECK(losses[1] == -HUGE_VAL);
  CHECK(std::isnan(losses[2]));
  CHECK(losses[3] == 0.5);

  const LossSeries series{7, 2, {{1, HUGE_VAL}, {2, -HUGE_VAL}, {3, std::nan("")}, {4, 0.5}}};
  CHECK(
      wire::losses_json({&series, 1}) ==
      R"({"items":[{"worker_id":7,"round":2,"steps":[1,2,3,4],"losses":["Infinity","-Infinity","NaN",0.5]}],"next":null})");
}
