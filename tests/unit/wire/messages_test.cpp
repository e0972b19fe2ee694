#include "wire/messages.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"

namespace {

using namespace parsyn;
using namespace parsyn::wire;
using Fields = std::vector<std::string>;
using std::chrono::milliseconds;

template <typename Decode>
Fields faults_of(Decode decode, const std::string &text) {
  Fields fields;
  try {
    decode(text);
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    for (const Fault &fault : error.faults()) fields.push_back(fault.field + " " + fault.code);
  }
  std::sort(fields.begin(), fields.end());
  return fields;
}

Task some_task() {
  Task task;
  task.task_id = 1;
  task.job_id = 2;
  task.job_name = "j";
  task.round = 3;
  task.num_rounds = 4;
  task.steps = 5;
  task.first_step = 10;
  task.total_steps = 20;
  task.seed = UINT64_MAX;
  task.num_examples = 7;
  task.model = {"mlp", {4, 3, 2}, "tanh", "mse", "", ""};
  task.config.optimizer = Optimizer::adamw;
  task.config.early_stopping = EarlyStopping{3, 0.5};
  task.global = {"g", 10, std::string(64, 'a'), "https://store/g?signature=x"};
  task.train = ObjectRef{"t", 11, std::string(64, 'b'), ""};
  task.validation = ObjectRef{"v", 12, std::string(64, 'c'), ""};
  task.upload = UploadSlot{"u", 1'000, "https://store/u"};
  return task;
}

}  // namespace

TEST_CASE("a session request and its grant arrive as they were sent") {
  SessionRequest request;
  request.software = "parsyn 0.1.0";
  request.instance = "f00d";
  request.capabilities = {{"mlp", "torchscript"}, true, true, "cuda:0"};
  request.local_datasets = {{"mine", 5}, {"other", 0}};
  const SessionRequest again = decode_session_request(encode(request));
  CHECK(again.protocol_version == kProtocolVersion);
  CHECK(again.software == request.software);
  CHECK(again.instance == request.instance);
  CHECK(again.capabilities.model_kinds == request.capabilities.model_kinds);
  CHECK(again.capabilities.bf16);
  CHECK(again.capabilities.lora);
  CHECK(again.capabilities.device == "cuda:0");
  REQUIRE(again.local_datasets.size() == 2);
  CHECK(again.local_datasets[0].name == "mine");
  CHECK(again.local_datasets[0].num_examples == 5);

  const SessionGrant grant{6, "w", UINT64_MAX, milliseconds(5'000), milliseconds(15'000), milliseconds(500)};
  const SessionGrant granted = decode_session_grant(encode(grant));
  CHECK(granted.worker_id == 6);
  CHECK(granted.worker_name == "w");
  CHECK(granted.lease == UINT64_MAX);
  CHECK(granted.heartbeat_interval == milliseconds(5'000));
  CHECK(granted.lease_duration == milliseconds(15'000));
  CHECK(granted.progress_interval == milliseconds(500));
}

TEST_CASE("a request of another protocol version is read as far as its version") {
  CHECK(decode_session_request(R"({"protocol_version":2,"name":"of a later time"})").protocol_version == 2);
  CHECK(faults_of(decode_session_request, R"({"protocol_version":"2"})") ==
        Fields{"capabilities required", "instance required", "protocol_version type", "software required"});
}

TEST_CASE("fields that are not known are ignored in the worker protocol") {
  CHECK(decode_task_poll(R"({"lease":3,"wait_ms":25000,"colour":{"red":1}})").wait == milliseconds(25'000));
}

TEST_CASE("a task arrives as it was sent, and so does none") {
  const Task task = some_task();
  const Task again = decode_task_answer(encode(task)).value();
  CHECK(again.kind == Task::Kind::train);
  CHECK(again.task_id == 1);
  CHECK(again.job_id == 2);
  CHECK(again.job_name == "j");
  CHECK(again.round == 3);
  CHECK(again.num_rounds == 4);
  CHECK(again.steps == 5);
  CHECK(again.first_step == 10);
  CHECK(again.total_steps == 20);
  CHECK(again.seed == UINT64_MAX);
  CHECK(again.num_examples == 7);
  CHECK(again.model == task.model);
  CHECK(again.config == task.config);
  CHECK(again.global.key == "g");
  CHECK(again.global.bytes == 10);
  CHECK(again.global.sha256 == task.global.sha256);
  CHECK(again.global.url == task.global.url);
  CHECK(again.train.value().key == "t");
  CHECK(again.validation.value().bytes == 12);
  CHECK(again.upload.value().bytes_max == 1'000);
  CHECK_FALSE(again.module.has_value());
  CHECK(again.local_dataset.empty());

  Task evaluation;
  evaluation.kind = Task::Kind::evaluate;
  evaluation.job_id = 1;
  evaluation.model.kind = "custom";
  evaluation.local_dataset = "mine";
  evaluation.global = {"g", 1, std::string(64, 'd'), ""};
  evaluation.module = ObjectRef{"m", 1, std::string(64, 'e'), ""};
  const Task evaluated = decode_task_answer(encode(evaluation)).value();
  CHECK(evaluated.kind == Task::Kind::evaluate);
  CHECK(evaluated.local_dataset == "mine");
  CHECK(evaluated.module.value().key == "m");
  CHECK_FALSE(evaluated.upload.has_value());

  CHECK(encode(std::optional<Task>{}) == R"({"task":null})");
  CHECK_FALSE(decode_task_answer(R"({"task":null})").has_value());
  CHECK(faults_of(decode_task_answer, "{}") == Fields{"task required"});
  CHECK(faults_of(decode_task_answer, R"({"task":{"kind":"sing"}})").size() > 5);
}

TEST_CASE("a task with a digest that is none is refused: a worker names files by digests") {
  for (const std::string &digest : {std::string(), std::string("../../.ssh/id"), std::string("/etc/hosts"),
                                    std::string(63, 'a'), std::string(64, 'A'), std::string(65, 'a')}) {
    INFO(digest);
    const auto faults_with = [&](const std::function<void(Task &)> &spoil) {
      Task task = some_task();
      task.module = ObjectRef{"m", 1, std::string(64, 'd'), ""};
      spoil(task);
      return faults_of(decode_task_answer, encode(task));
    };
    CHECK(faults_with([](Task &) {}).empty());
    CHECK(faults_with([&](Task &task) { task.global.sha256 = digest; }) ==
          Fields{"task.global.sha256 format"});
    CHECK(faults_with([&](Task &task) { task.module->sha256 = digest; }) ==
          Fields{"task.module.sha256 format"});
    CHECK(faults_with([&](Task &task) { task.train->sha256 = digest; }) ==
          Fields{"task.train.sha256 format"});
    CHECK(faults_with([&](Task &task) { task.validation->sha256 = digest; }) ==
          Fields{"task.validation.sha256 format"});
    if (digest.empty()) continue;  // a model without a module
    CHECK(faults_with([&](Task &task) { task.model.module_sha256 = digest; }) ==
          Fields{"task.model.module_sha256 format"});
  }
}

TEST_CASE("a report arrives as it was sent") {
  Report report;
  report.lease = 1;
  report.task_id = 2;
  report.job_id = 3;
  report.round = 4;
  report.key = "jobs/3/rounds/4/updates/5.safetensors";
  report.sha256 = std::string(64, '0');
  report.bytes = 1ULL << 40;
  report.num_examples = UINT64_MAX;
  report.train_loss = 0.1;
  report.received = Evaluation{0.5, 0.25, 8};
  report.own = Evaluation{HUGE_VAL, std::nullopt, 8};
  const Report again = decode_report(encode(report));
  CHECK(again.lease == 1);
  CHECK(again.task_id == 2);
  CHECK(again.job_id == 3);
  CHECK(again.round == 4);
  CHECK(again.failure.empty());
  CHECK(again.key == report.key);
  CHECK(again.sha256 == report.sha256);
  CHECK(again.bytes == report.bytes);
  CHECK(again.num_examples == UINT64_MAX);
  CHECK(again.train_loss == report.train_loss);
  CHECK(again.received == report.received);
  CHECK(again.own == report.own);
}

TEST_CASE("a report with several faults is refused with all of them") {
  CHECK(faults_of(decode_report,
                  R"({"lease":0,"job_id":1,"round":-1,"num_examples":2.5,"key":"k","sha256":"XYZ",
      "train_loss":"high","own":{"loss":null,"num_examples":-3}})") ==
        Fields{"bytes required", "lease range", "num_examples type", "own.loss type",
               "own.num_examples range", "round range", "sha256 format", "task_id required",
               "train_loss type"});
  const std::string stored =
      R"({"lease":1,"task_id":1,"job_id":1,"round":1,"num_examples":1,"key":"k","bytes":1)";
  CHECK(faults_of(decode_report, stored + "}") == Fields{"sha256 required"});
  CHECK(faults_of(decode_report, stored + R"(,"sha256":""})") == Fields{"sha256 format"});
}

TEST_CASE("an accuracy is a share, and a loss any number") {
  const auto read = [](const std::string &accuracy) {
    return decode_report(
               R"({"lease":1,"task_id":1,"job_id":1,"round":1,"failure":"","num_examples":1,"key":"k",)"
               R"("bytes":1,"sha256":")" +
               std::string(64, 'a') + R"(","received":{"loss":"-Infinity","num_examples":1,"accuracy":)" +
               accuracy + "}}")
        .received.value();
  };
  CHECK(read("0").accuracy == 0.0);
  CHECK(read("1").accuracy == 1.0);
  CHECK(read("0.5").accuracy == 0.5);
  CHECK(read("0.5").loss == -HUGE_VAL);
  // It is dropped, and the report counts.
  for (const char *wrong : {"null", "5", "-0.1", "1e308", R"("NaN")", R"("Infinity")", R"("-Infinity")"}) {
    INFO(wrong);
    CHECK_FALSE(read(wrong).accuracy);
  }
}

TEST_CASE("a failed task's report needs no result, and its reason is bounded") {
  CHECK(decode_report(R"({"lease":1,"task_id":1,"job_id":1,"round":1,"failure":"out of\nmemory"})").failure ==
        "out of memory");
  CHECK(faults_of(decode_report, R"({"lease":1,"task_id":1,"job_id":1,"round":1,"failure":")" +
                                     std::string(limits::kReasonBytesMax + 1, 'x') + "\"}") ==
        Fields{"failure format", "num_examples required"});

  Report report;
  report.lease = 1;
  // Characters of three bytes, so that a cut at any byte would split one.
  for (int i = 0; i < 1'000; ++i) report.failure += "\xE6\x97\xA5";
  const std::string failure = decode_report(encode(report)).failure;
  CHECK(failure.size() <= limits::kReasonBytesMax);
  CHECK(failure.size() > limits::kReasonBytesMax - 6);
  CHECK(failure.substr(failure.size() - 3) == "...");
  CHECK(report.failure.rfind(failure.substr(0, failure.size() - 3), 0) == 0);
}

TEST_CASE("a report's receipt arrives as it was sent") {
  const ReportReceipt receipt{false, true, "wrong_round", "round 3 is open: ask for a task", 3};
  const ReportReceipt again = decode_report_receipt(encode(receipt));
  CHECK_FALSE(again.accepted);
  CHECK(again.duplicate);
  CHECK(again.code == "wrong_round");
  CHECK(again.reason == receipt.reason);
  CHECK(again.current_round == 3);
  CHECK(faults_of(decode_report_receipt, "{}") == Fields{"accepted required"});
}

TEST_CASE("a heartbeat with progress and its answer arrive as they were sent") {
  const Heartbeat idle = decode_heartbeat(encode(Heartbeat{5, std::nullopt}));
  CHECK(idle.lease == 5);
  CHECK_FALSE(idle.progress.has_value());

  TaskProgress progress{1, 2, 3, "training", 40, 50, 123.5, 39, {0.5, 0.25}};
  const TaskProgress again = decode_heartbeat(encode(Heartbeat{5, progress})).progress.value();
  CHECK(again.task_id == 1);
  CHECK(again.job_id == 2);
  CHECK(again.round == 3);
  CHECK(again.phase == "training");
  CHECK(again.step == 40);
  CHECK(again.steps == 50);
  CHECK(again.examples_per_second == 123.5);
  CHECK(again.first_loss_step == 39);
  CHECK(again.losses == progress.losses);

  CHECK(decode_heartbeat_answer(encode(HeartbeatAnswer{{7, 8}})).cancelled_tasks ==
        std::vector<std::uint64_t>{7, 8});
  CHECK(decode_heartbeat_answer("{}").cancelled_tasks.empty());
}

TEST_CASE("a heartbeat with too many losses is refused") {
  TaskProgress progress;
  progress.phase = "training";
  progress.losses.assign(limits::kLossesPerHeartbeatMax, 0.5);
  CHECK(decode_heartbeat(encode(Heartbeat{1, progress})).progress->losses.size() ==
        limits::kLossesPerHeartbeatMax);
  progress.losses.push_back(0.5);
  CHECK(faults_of(decode_heartbeat, encode(Heartbeat{1, progress})) == Fields{"progress.losses range"});
}

TEST_CASE("an URL request and its answer arrive as they were sent") {
  const UrlRequest again = decode_url_request(encode(UrlRequest{3, "a/b", true}));
  CHECK(again.lease == 3);
  CHECK(again.key == "a/b");
  CHECK(again.write);
  CHECK(decode_url_answer(encode(UrlAnswer{"https://x/?s=1"})).url == "https://x/?s=1");
  CHECK(faults_of(decode_url_request, R"({"lease":1,"key":"a\u0000b"})") == Fields{"key format"});
  CHECK(faults_of(decode_url_request, R"({"lease":1,"key":")" + std::string(kKeyBytesMax + 1, 'k') + "\"}") ==
        Fields{"key format"});
}

TEST_CASE("a NUL byte does not end a message") {
  using namespace std::string_literals;
  const Error error =
      test::error_of([] { wire::decode_task_poll("{\"lease\":1,\"wait_ms\":0}\0 and more"s); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  REQUIRE(error.faults().size() == 1);
  CHECK(error.faults().front().code == "json");
}
