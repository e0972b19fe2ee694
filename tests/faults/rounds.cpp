// Public failure reports about aggregation, rounds and workers, through a whole coordinator, by their
// numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

StateDict with_bad_element(float bad) {
  StateDict state = constant(1);
  std::vector<float> elements = f32_elements(state["w"]);
  elements[5] = bad;
  state["w"] = make_f32_tensor({8}, elements);
  return state;
}

bool mentions(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("fault 1: a round whose total weight is zero fails, and the model stays") {
  SmallJob small(constant(7));
  small.use_local_data();
  ManualWorker a = small.join_with_data(1);
  ManualWorker b = small.join_with_data(1);
  const Id job = small.coordinator->submit(small.config(2, 2)).id;
  const Task task_a = a.task();
  const Task task_b = b.task();
  Report report_a = a.upload(task_a, constant(2));
  Report report_b = b.upload(task_b, constant(6));
  report_a.num_examples = 0;
  report_b.num_examples = 0;
  CHECK(a.transport().report(report_a).accepted);
  b.transport().report(report_b);  // accepted, or told that the job has ended: nothing could save the round
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::failed);
  CHECK(mentions(status.reason, "total weight 0"));
  CHECK(small.value(job) == 7);
}

TEST_CASE("fault 3: one element that is not finite is refused with its tensor and index") {
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity());
  const std::uint32_t min_workers = GENERATE(1U, 2U);
  SmallJob small(constant(7), 200);
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(min_workers, 2)).id;
  const Task task_b = b.task();
  const Task task_a = a.task();
  b.train(task_b, with_bad_element(bad));
  // With a minimum of two the round may already have failed: A's report is then refused, which is as right.
  try {
    a.train(task_a, constant(1));
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::forbidden);
  }
  const JobStatus status = small.ended(job);
  const Contribution &refused = status.rounds.at(0).contributions.at(1);
  CHECK(refused.state == "refused");
  CHECK(mentions(refused.reason, "w"));
  CHECK(mentions(refused.reason, "5"));
  CHECK(status.state == (min_workers == 1 ? JobState::completed : JobState::failed));
  for (const float element : f32_elements(small.global(job).at("w")))
    CHECK(element == (min_workers == 1 ? 1 : 7));
}

TEST_CASE("fault 5: the divisor is the weight of those that reported") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(4);
  const Id job = small.coordinator->submit(small.config_for(workers, 2)).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());
  workers[0].train(tasks[0], constant(1));
  workers[1].train(tasks[1], constant(3));
  workers[2].transport().close_session(workers[2].lease());
  workers[3].transport().close_session(workers[3].lease());
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 2.0F);
}

TEST_CASE("fault 7: a worker's results are its own, in whatever order they come") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(3);
  const Id job = small.coordinator->submit(small.config(3, 3)).id;
  for (int i = 2; i >= 0; --i) {
    ManualWorker &worker = workers[static_cast<std::size_t>(i)];
    Report report = worker.upload(worker.task(), constant(0));
    report.train_loss = i * 0.1;
    CHECK(worker.transport().report(report).accepted);
  }
  const JobStatus status = small.ended(job);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(status.rounds.at(0).contributions.at(i).worker_id == workers[i].id());
    CHECK(status.rounds.at(0).contributions.at(i).train_loss == Approx(0.1 * static_cast<double>(i)));
  }
}

TEST_CASE("fault 8: nothing of a round leaks into the next") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(2, 2, 3)).id;
  for (int round = 1; round <= 3; ++round) {
    for (ManualWorker *worker : {&a, &b}) {
      const Task task = worker->task();
      CHECK(task.round == static_cast<std::uint32_t>(round));
      const float global = f32_elements(worker->weights(task).at("w")).at(0);
      CHECK(global == static_cast<float>(round - 1));
      worker->train(task, constant(global + 1));
    }
  }
  CHECK(small.ended(job).state == JobState::completed);
  for (std::uint32_t round = 1; round <= 3; ++round)
    CHECK(small.value(job, round) == static_cast<float>(round));
}

TEST_CASE("faults 11, 12, 23: names, shapes and dtypes are exactly the model's") {
  StateDict initial = constant(0, 6);
  initial["b"] = make_f32_tensor({2, 3}, std::vector<float>(6, 0));
  SmallJob small(initial);
  const auto refusal_of = [&](const StateDict &state) {
    ManualWorker good = ManualWorker::join(*small.coordinator);
    ManualWorker bad = ManualWorker::join(*small.coordinator);
    JobConfig config = small.config(1, 2);
    config.worker_selection.mode = SelectionMode::own;
    config.worker_selection.worker_ids = {good.id(), bad.id()};
    const Id job = small.coordinator->submit(config).id;
    const Task task = good.task();
    bad.train(bad.task(), state);
    StateDict update = initial;
    update["b"] = make_f32_tensor({2, 3}, std::vector<float>(6, 4));
    good.train(task, update);
    const JobStatus status = small.ended(job);
    CHECK(status.state == JobState::completed);
    CHECK(small.global(job) == update);
    CHECK(status.rounds.at(0).contributions.at(1).state == "refused");
    return status.rounds.at(0).contributions.at(1).reason;
  };
  StateDict missing = constant(0, 6);
  CHECK(mentions(refusal_of(missing), "b"));
  StateDict extra = initial;
  extra["x"] = make_f32_tensor({1}, {0});
  CHECK(mentions(refusal_of(extra), "x"));
  for (const std::vector<std::uint64_t> &shape : {std::vector<std::uint64_t>{3, 2}, {6}, {1, 6}, {2, 3, 1}}) {
    StateDict other = initial;
    other["b"] = make_f32_tensor(shape, std::vector<float>(6, 0));
    const std::string reason = refusal_of(other);
    CHECK(mentions(reason, shape_text(shape)));
    CHECK(mentions(reason, "[2, 3]"));
  }
  StateDict half = initial;
  half["b"] = Tensor{Dtype::bf16, {2, 3}, std::vector<std::byte>(12)};
  const std::string reason = refusal_of(half);
  CHECK(mentions(reason, "BF16"));
  CHECK(mentions(reason, "F32"));
}

TEST_CASE("fault 20: counts that do not fit are refused") {
  SmallJob small;
  small.use_local_data();
  ManualWorker a = small.join_with_data(1'500'000'000);
  ManualWorker b = small.join_with_data(1'500'000'000);
  const Id job = small.coordinator->submit(small.config(2, 2)).id;
  a.train(a.task(), constant(1));
  b.train(b.task(), constant(3));
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 2.0F);
}

TEST_CASE("fault 21: metrics of a round are weighted by examples, and labelled so") {
  SECTION("the training loss, by the examples that were trained on") {
    SmallJob small;
    small.use_local_data();
    ManualWorker a = small.join_with_data(10);
    ManualWorker b = small.join_with_data(990);
    const Id job = small.coordinator->submit(small.config(2, 2)).id;
    for (auto &[worker, loss] : {std::pair(&a, 0.9), std::pair(&b, 0.5)}) {
      Report report = worker->upload(worker->task(), constant(1));
      report.train_loss = loss;
      CHECK(worker->transport().report(report).accepted);
    }
    CHECK(small.ended(job).rounds.at(0).train_loss == Approx(0.504));
  }
  SECTION("loss and accuracy of the global model, by the examples that were measured") {
    SmallJob small;
    small.dataset = small.coordinator->add_dataset("validated", few_examples(12), few_examples(990)).id;
    std::vector<ManualWorker> workers = small.join(2);
    const Id job = small.coordinator->submit(small.config(2, 2)).id;
    const std::vector<Evaluation> measured{{.loss = 0.9, .accuracy = 0.9, .num_examples = 10},
                                           {.loss = 0.5, .accuracy = 0.5, .num_examples = 990}};
    for (std::size_t i = 0; i < 2; ++i) {
      Report report = workers[i].upload(workers[i].task(), constant(1));
      report.received = measured[i];
      CHECK(workers[i].transport().report(report).accepted);
    }
    const Task last = workers[0].task();
    REQUIRE(last.kind == Task::Kind::evaluate);
    Report report = workers[0].report_for(last);
    report.received = measured[0];
    CHECK(workers[0].transport().report(report).accepted);
    const JobStatus status = small.ended(job);
    REQUIRE(status.initial);
    CHECK(status.initial->loss == Approx(0.504));
    REQUIRE(status.initial->accuracy);
    CHECK(*status.initial->accuracy == Approx(0.504));
    // Each worker's own numbers stand beside the mean, so that it can be computed again.
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(status.rounds.at(0).contributions.at(i).received == measured[i]);
  }
}

TEST_CASE("fault 22: a report's weight is the same in every round") {
  SmallJob small(constant(0), 20);
  ManualWorker a = ManualWorker::join(*small.coordinator);
  JobConfig config = small.config(1, 1, 3);
  config.distributed->steps_per_round = 5;
  config.config.batch_size = 4;
  const Id job = small.coordinator->submit(config).id;
  for (int round = 0; round < 3; ++round) {
    const Task task = a.task();
    CHECK(task.num_examples == 20);
    CHECK(task.first_step == static_cast<std::uint64_t>(round) * 5);
    a.train(task, constant(1));
  }
  for (const RoundRecord &record : small.ended(job).rounds)
    CHECK(record.contributions.at(0).num_examples == 20);
}

TEST_CASE("fault 24: a report is all or nothing") {
  SmallJob small(constant(5));
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 2)).id;
  MemorySink whole;
  write_safetensors(constant(1000), whole);
  std::vector<std::byte> half(whole.bytes().begin(),
                              whole.bytes().begin() + static_cast<std::ptrdiff_t>(whole.bytes().size() / 2));
  const Task task_a = a.task();
  const Task task_b = b.task();
  CHECK(b.transport().report(b.upload_bytes(task_b, half)).accepted);
  a.train(task_a, constant(1));
  const JobStatus status = small.ended(job);
  CHECK(status.rounds.at(0).contributions.at(1).state == "refused");
  CHECK(small.value(job) == 1.0F);
}

TEST_CASE("fault 27: a report belongs to one job, whatever its name") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  const Id first = small.coordinator->submit(small.config(1, 1)).id;
  const Task old_task = a.task();
  const Report old_report = a.upload(old_task, constant(1000));
  small.coordinator->cancel_job(first);
  const Id second = small.coordinator->submit(small.config(1, 1)).id;
  const ReportReceipt receipt = a.transport().report(old_report);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "job_ended");
  Report forged = old_report;
  forged.job_id = second;
  CHECK_FALSE(a.transport().report(forged).accepted);
  CHECK(a.train(a.task(), constant(1)).accepted);
  CHECK(small.ended(second).state == JobState::completed);
  CHECK(small.value(second) == 1.0F);
}

TEST_CASE(
    "fault 29: the first report of a worker stands; a repeat gets the same receipt, another one is refused") {
  SmallJob small;
  ManualWorker w = ManualWorker::join(*small.coordinator);
  ManualWorker other = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(2, 2)).id;
  const Task task = w.task();
  const Report first = w.upload(task, constant(1));
  Report second = first;
  second.sha256[0] = second.sha256[0] == '0' ? '1' : '0';
  CHECK(w.transport().report(first).accepted);
  const ReportReceipt repeat = w.transport().report(first);
  CHECK(repeat.accepted);
  CHECK(repeat.duplicate);
  const ReportReceipt conflict = w.transport().report(second);
  CHECK_FALSE(conflict.accepted);
  CHECK(conflict.code == "conflicting_report");
  // Its slot is closed with the report.
  CHECK_THROWS_AS(w.upload(task, constant(2)), Error);
  other.train(other.task(), constant(0));
  CHECK(small.ended(job).rounds.at(0).contributions.size() == 2);
  CHECK(small.value(job) == 0.5F);
}

TEST_CASE("fault 44: two jobs of one name do not mix") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  Id up = 0;
  Id down = 0;
  std::thread at_once([&] { up = small.coordinator->submit(small.config(1, 1, 5)).id; });
  down = small.coordinator->submit(small.config(1, 1, 5)).id;
  at_once.join();
  CHECK(up != down);
  for (int i = 0; i < 10; ++i) {
    const Task task = a.task();
    const float global = f32_elements(a.weights(task).at("w")).at(0);
    CHECK(a.train(task, constant(task.job_id == up ? global + 1 : global - 1)).accepted);
  }
  CHECK(small.ended(up).state == JobState::completed);
  CHECK(small.ended(down).state == JobState::completed);
  CHECK(small.value(up) == 5.0F);
  CHECK(small.value(down) == -5.0F);
  CHECK(small.coordinator->job_model(up).key != small.coordinator->job_model(down).key);
}

TEST_CASE("fault 52: over the rounds every worker is chosen") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(10);
  JobConfig config = small.config_for(workers, 3, 8);
  config.distributed->max_workers = 3;
  const Id job = small.coordinator->submit(config).id;
  std::set<Id> chosen;
  for (int done = 0; done < 8 * 3;) {
    for (ManualWorker &worker : workers) {
      if (!worker.has_task()) continue;
      chosen.insert(worker.id());
      worker.train(worker.task(), constant(1));
      ++done;
    }
  }
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(chosen.size() == 10);
}

TEST_CASE("fault 53: a worker keeps its partition for the whole job, over a restart too") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  JobConfig config = small.config(2, 2, 10);
  config.worker_selection.mode = SelectionMode::own;
  config.worker_selection.worker_ids = {a.id(), b.id()};
  const Id job = small.coordinator->submit(config).id;
  std::string data_of_a;
  for (int round = 0; round < 10; ++round) {
    if (round == 5) a.connect();
    const Task task = a.task();
    if (round == 0) data_of_a = task.train->key;
    CHECK(task.train->key == data_of_a);
    const Task task_b = b.task();
    CHECK(task_b.train->key != data_of_a);
    a.train(task, constant(1));
    b.train(task_b, constant(1));
  }
  CHECK(small.ended(job).state == JobState::completed);
}

TEST_CASE("fault 58: fewer examples than workers is refused with both numbers") {
  SmallJob small(constant(0), 3);
  const std::vector<ManualWorker> workers = small.join(5);
  const JobConfig config = small.config_for(workers, 1);
  const std::vector<Fault> faults = small.coordinator->check(config);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].field == "dataset_id");
  CHECK(mentions(faults[0].message, "3"));
  CHECK(mentions(faults[0].message, "5"));
  CHECK_THROWS_AS(small.coordinator->submit(config), Error);
}

TEST_CASE("fault 65: seed 0 is a seed, an absent one is drawn and told") {
  SmallJob small;
  JobConfig config = small.config(1, 1);
  config.seed = 0;
  CHECK(small.coordinator->submit(config).config.seed == 0U);
  config.seed.reset();
  const JobStatus first = small.coordinator->submit(config);
  const JobStatus second = small.coordinator->submit(config);
  REQUIRE(first.config.seed);
  REQUIRE(second.config.seed);
  CHECK(*first.config.seed != *second.config.seed);
}

TEST_CASE("fault 69: the status shows which share of the data a round did not cover") {
  SmallJob small(constant(0), 12);
  std::vector<ManualWorker> workers = small.join(3);
  const Id job = small.coordinator->submit(small.config_for(workers, 2)).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());
  workers[0].train(tasks[0], constant(1));
  workers[1].train(tasks[1], constant(1));
  workers[2].transport().close_session(workers[2].lease());
  const RoundRecord record = small.ended(job).rounds.at(0);
  CHECK(record.examples == 8);
  CHECK(record.examples_total == 12);
}

TEST_CASE("fault 86: what is passed is copied: overwritten and gone afterwards, it counts as it was") {
  auto initial = std::make_unique<StateDict>(constant(5));
  auto examples = std::make_unique<Examples>(few_examples(12));
  SmallJob small(*initial);
  small.dataset = small.coordinator->add_dataset("passed", *examples, std::nullopt).id;
  ModelSpec spec;
  spec.name = "passed";
  spec.description.kind = "custom";
  small.model = small.coordinator->add_model(spec, *initial).id;
  CHECK(*initial == constant(5));  // nor is it written to
  std::ranges::fill(initial->at("w").data, std::byte{0xFF});
  std::ranges::fill(examples->x.data, std::byte{0xFF});
  initial.reset();
  examples.reset();

  std::vector<ManualWorker> workers = small.join(2);
  const Id job = small.coordinator->submit(small.config_for(workers, 2)).id;
  TemporaryFolder folder;
  for (ManualWorker &worker : workers) {
    const Task task = worker.task();
    // Each worker has a copy of its own, to do with as it likes.
    const auto file = folder.path() / "weights.safetensors";
    worker.transport().download(task.global, file, {});
    CHECK(read_safetensors(system::FileSource(file)) == constant(5));
    system::write_text_file(file, "overwritten");
    worker.transport().download(*task.train, file, {});
    const Tensor x = read_safetensors(system::FileSource(file)).at("x");
    CHECK(std::ranges::all_of(f32_elements(x), [](float element) { return element == 1; }));
    // The update's file too is the worker's again as soon as upload() has returned.
    MemorySink sink;
    write_safetensors(constant(worker.id() == workers[0].id() ? 2 : 4), sink);
    system::write_text_file(file, {reinterpret_cast<const char *>(sink.bytes().data()), sink.bytes().size()});
    Report report = worker.report_for(task);
    report.sha256 = system::sha256_hex(system::FileSource(file));
    report.bytes = sink.bytes().size();
    report.key = task.upload->key;
    report.num_examples = task.num_examples;
    worker.transport().upload(*task.upload, file, {});
    system::write_text_file(file, std::string(sink.bytes().size(), '\xff'));
    std::filesystem::remove(file);
    CHECK(worker.transport().report(report).accepted);
  }
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 3.0F);
}

TEST_CASE("fault 105: an update that vanished from the store does not count") {
  SmallJob small(constant(4));
  ManualWorker a = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  const Task task = a.task();
  const Report report = a.upload(task, constant(1));
  small.coordinator->store().remove(task.upload->key);
  CHECK(a.transport().report(report).accepted);
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::failed);
  CHECK(small.value(job) == 4.0F);
}

TEST_CASE("what a round consumed is removed, of a failed attempt too") {
  CoordinatorOptions options;
  const auto journal = make_memory_journal();
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  JobConfig config = small.config(2, 2, 2);
  config.distributed->fault_tolerance = 3;
  const Id job = small.coordinator->submit(config).id;
  a.train(a.task(), constant(1));
  b.fail(b.task(), "out of memory");
  for (int round = 1; round <= 2; ++round) {
    a.train(a.task(), constant(1));
    b.train(b.task(), constant(1));
  }
  CHECK(small.ended(job).state == JobState::completed);
  // What is left: the initial model and one of each round.
  const std::string folder = "jobs/" + std::to_string(job) + "/";
  // It is removed after the job has ended, by a thread of the coordinator's.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (small.coordinator->store().list(folder).size() > 2 && std::chrono::steady_clock::now() < deadline) {
    a.transport().heartbeat({.lease = a.lease(), .progress = {}});
  }
  for (const std::string &key : small.coordinator->store().list(folder)) CHECK(mentions(key, "/global-"));
  small.coordinator->stop();
  journal->for_each("reports", [](std::string_view key, std::string_view) { FAIL_CHECK(key); });
}

TEST_CASE("progress counts for the task's own job only") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  const auto job_of = [&](const ManualWorker &worker) {
    JobConfig config = small.config(1, 1);
    config.worker_selection.mode = SelectionMode::own;
    config.worker_selection.worker_ids = {worker.id()};
    return small.coordinator->submit(config).id;
  };
  const Id own = job_of(a);
  const Id other = job_of(b);
  b.task();
  Heartbeat heartbeat = a.training(a.task());
  heartbeat.progress->first_loss_step = 1;
  heartbeat.progress->losses = {0.25};
  heartbeat.progress->job_id = other;
  a.transport().heartbeat(heartbeat);
  CHECK(small.coordinator->losses(other).empty());
  heartbeat.progress->job_id = own;
  a.transport().heartbeat(heartbeat);
  CHECK(small.coordinator->losses(own).size() == 1);
}

TEST_CASE("progress counts for the steps that the task has only") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  Heartbeat heartbeat = a.training(a.task());
  TaskProgress &progress = *heartbeat.progress;
  progress.step = progress.steps = progress.first_loss_step = std::numeric_limits<std::uint64_t>::max();
  progress.losses = {1000, 1000};
  a.transport().heartbeat(heartbeat);
  CHECK(small.coordinator->job(job).workers.at(0).step == 1);
  CHECK(small.coordinator->job(job).workers.at(0).steps == 1);
  progress.first_loss_step = 1;
  progress.losses = {0.25, 1000};
  a.transport().heartbeat(heartbeat);
  const std::vector<LossSeries> losses = small.coordinator->losses(job);
  REQUIRE(losses.size() == 1);
  CHECK(losses[0].losses == std::vector<std::pair<std::uint64_t, double>>{{1, 0.25}});
}

TEST_CASE("a speed that cannot be is none, and steps are the task's") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  const Task task = a.task();
  Heartbeat heartbeat = a.training(task);
  TaskProgress &progress = *heartbeat.progress;
  const auto told = [&](double speed) {
    progress.examples_per_second = speed;
    a.transport().heartbeat(heartbeat);
    return small.coordinator->job(job).workers.at(0).examples_per_second;
  };
  CHECK(told(123.5) == 123.5);
  for (const double wrong : {1e300, -1.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    INFO(wrong);
    CHECK(told(wrong) == 0);
    const Event event = small.coordinator->events_after(job, small.coordinator->last_event(job) - 1, 1).at(0);
    REQUIRE(event.type == "worker_progress");
    const auto speed =
        std::ranges::find(event.fields, "examples_per_second", &std::pair<std::string, EventValue>::first);
    REQUIRE(speed != event.fields.end());
    CHECK(speed->second == EventValue(0.0));
  }
  progress.step = 1;
  progress.steps = 0;
  told(1);
  CHECK(small.coordinator->job(job).workers.at(0).step == 1);
  CHECK(small.coordinator->job(job).workers.at(0).steps == task.steps);
}

TEST_CASE("a report that names no update is no evaluation that came late, unless one was asked for") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  ManualWorker b = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(2, 2)).id;
  const Task task = a.task();
  Report report = b.report_for(b.task());
  report.task_id = task.task_id + 1000;
  report.num_examples = task.num_examples;
  CHECK_FALSE(b.transport().report(report).accepted);
  report.task_id = task.task_id;
  report.lease = a.lease();
  const ReportReceipt receipt = b.transport().report(report);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "lease_expired");
  CHECK(small.coordinator->job(job).state == JobState::running);
}

TEST_CASE("fault 125: a coordinator stops in bounded time, twice, with workers waiting") {
  SmallJob small;
  ManualWorker a = ManualWorker::join(*small.coordinator);
  std::thread waiting([&] {
    try {
      const bool task =
          a.transport().next_task({.lease = a.lease(), .wait = std::chrono::seconds(20)}).has_value();
      CHECK_FALSE(task);
    } catch (const Error &error) {
      CHECK(error.code() == ErrorCode::cancelled);  // it had not asked yet
    }
  });
  small.coordinator->stop();
  small.coordinator->stop();
  waiting.join();
  CHECK_THROWS_AS(small.coordinator->add_worker({"late", WorkerKind::own}), Error);
}
