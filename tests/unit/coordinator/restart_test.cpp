// A coordinator that ends in the middle of things and starts again from its journal and its store.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "coordinator/make_coordinator.hpp"
#include "http/http_client.hpp"
#include "parsyn/http.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/event_texts.hpp"
#include "support/eventually.hpp"
#include "support/loopback_serving.hpp"
#include "support/moved_clock.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

CoordinatorOptions lasting(std::uint32_t keep_rounds) {
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.journal = make_memory_journal();
  options.join_window = std::chrono::milliseconds(0);
  options.keep_rounds = keep_rounds;
  return options;
}

/// What outlives a coordinator, and the coordinators that use it one after the other.
class Restarts {
 public:
  explicit Restarts(std::uint32_t keep_rounds = limits::kKeepRoundsDefault)
      : options_(lasting(keep_rounds)), small_(constant(0), 12, options_, [this](const auto &options) {
          return coordinator::make_coordinator(options, clock);
        }) {}

  void restart() {
    coordinator.reset();
    coordinator = coordinator::make_coordinator(options_, clock);
  }
  void restart(std::vector<ManualWorker> &workers) {
    restart();
    for (ManualWorker &worker : workers) worker.reach(*coordinator);
  }

  std::vector<ManualWorker> join(std::size_t count) const { return small_.join(count); }
  /// Every round averages all of them.
  JobConfig config(const std::vector<ManualWorker> &workers, std::uint32_t rounds) const {
    return small_.config_for(workers, static_cast<std::uint32_t>(workers.size()), rounds);
  }
  float value(Id job, const RoundChoice &round = {}) const { return small_.value(job, round); }
  CoordinatorOptions &options() { return options_; }

  MovedClock clock;

 private:
  CoordinatorOptions options_;
  SmallJob small_;

 public:
  std::unique_ptr<Coordinator> &coordinator = small_.coordinator;
};

/// A journal that a test makes fail.
class FailingJournal final : public Journal {
 public:
  void commit(std::span<const JournalWrite> batch) override {
    if (broken) throw Error(ErrorCode::io, "the disk could not be flushed");
    if (full) {
      ++refused;
      throw Error(ErrorCode::unavailable, "no space left on device");
    }
    const bool is_slow =
        std::ranges::any_of(batch, [&](const JournalWrite &write) { return write.table == slow_table; });
    if (is_slow) {
      if (Gate *gate = slow.exchange(nullptr)) gate->wait();
    }
    inner_->commit(batch);
    if (is_slow) ++slow_commits;
  }
  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    inner_->for_each(table, range, visit);
  }
  std::string failure() const override { return {}; }

  std::atomic<bool> full{false};
  std::atomic<bool> broken{false};
  std::atomic<int> refused{0};
  /// The next commit with something for `slow_table` waits here.
  std::atomic<Gate *> slow{nullptr};
  std::atomic<int> slow_commits{0};
  const std::string slow_table;

  explicit FailingJournal(std::string slow_table_name = "workers") : slow_table(std::move(slow_table_name)) {}

 private:
  std::shared_ptr<Journal> inner_ = make_memory_journal();
};

}  // namespace

TEST_CASE("a round goes on after a restart: accepted reports count, once, and leases and tasks go on") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(3);
  const Id job = run.coordinator->submit(run.config(workers, 2), {}).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());
  const Report reported = workers[0].upload(tasks[0], constant(3));
  CHECK(workers[0].transport().report(reported).accepted);
  const Report late = workers[1].upload(tasks[1], constant(6));

  run.restart(workers);

  const JobStatus status = run.coordinator->job(job);
  CHECK(status.state == JobState::running);
  CHECK(status.round == 1);
  CHECK(status.deadline_seconds.value_or(0) > 50);
  const ReportReceipt again = workers[0].transport().report(reported);
  CHECK(again.accepted);
  CHECK(again.duplicate);
  CHECK(workers[1].transport().report(late).accepted);
  CHECK(workers[2].task().task_id == tasks[2].task_id);
  CHECK(workers[2].train(tasks[2], constant(9)).accepted);

  for (ManualWorker &worker : workers) {
    const Task task = worker.task();
    CHECK(task.round == 2);
    CHECK(f32_elements(worker.weights(task).at("w")).at(0) == 6.0F);
    worker.train(task, constant(7));
  }
  const JobStatus ended = run.coordinator->wait(job, std::chrono::seconds(10));
  CHECK(ended.state == JobState::completed);
  CHECK(run.value(job) == 7.0F);
  for (const RoundRecord &record : ended.rounds) CHECK(record.contributions.size() == 3);
}

TEST_CASE("a job that has ended stays as it is over restarts, and events keep their order") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 1), "key-1").id;
  workers[0].train(workers[0].task(), constant(4));
  const JobStatus before = run.coordinator->wait(job, std::chrono::seconds(10));
  const std::vector<Event> events = run.coordinator->events_after(job, 0, 1'000);
  run.restart(workers);
  const JobStatus after = run.coordinator->job(job);
  CHECK(after.state == JobState::completed);
  CHECK(after.reason == before.reason);
  CHECK(after.rounds.at(0).model_sha256 == before.rounds.at(0).model_sha256);
  CHECK(after.ended_ms == before.ended_ms);
  const std::vector<Event> kept = run.coordinator->events_after(job, 0, 1'000);
  REQUIRE(kept.size() == events.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(kept[i].sequence == events[i].sequence);
    CHECK(kept[i].text == events[i].text);
  }
  SECTION("the same idempotency key still gives the same job, and another configuration a conflict") {
    CHECK(run.coordinator->submit(run.config(workers, 1), "key-1").id == job);
    CHECK_THROWS_AS(run.coordinator->submit(run.config(workers, 2), "key-1"), Error);
    CHECK(run.coordinator->jobs().size() == 1);
  }
  SECTION("numbers are not given out again") {
    const WorkerCredentials newest = run.coordinator->add_worker({"b"});
    run.coordinator->remove_worker(newest.worker.id);
    run.restart();
    CHECK(run.coordinator->add_worker({"c"}).worker.id == newest.worker.id + 1);
  }
}

TEST_CASE("events of a job go on with higher numbers after a restart") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 1), {}).id;
  const Task task = workers[0].task();
  workers[0].transport().heartbeat(workers[0].training(task));
  const std::uint64_t last = run.coordinator->events_after(job, 0, 1'000).back().sequence;
  run.restart(workers);
  const std::vector<Event> newer = run.coordinator->events_after(job, last, 1'000);
  REQUIRE(!newer.empty());
  CHECK(newer.front().type == "coordinator_restarted");
  CHECK(newer.front().sequence > last);
}

TEST_CASE("the deadline goes on while the coordinator is away, on one boot; after another what remained") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 1), {}).id;
  workers[0].task();
  run.coordinator.reset();
  run.clock.move(std::chrono::seconds(20));
  SECTION("the same boot") {
    run.restart(workers);
    const double left = run.coordinator->job(job).deadline_seconds.value_or(0);
    CHECK(left > 30);
    CHECK(left <= 40);
  }
  SECTION("another boot, whose clock starts at nought") {
    run.clock.reboot();
    run.clock.move(-run.clock.now());
    run.restart(workers);
    CHECK(run.coordinator->job(job).deadline_seconds.value_or(0) > 55);
  }
  SECTION("it has passed meanwhile") {
    run.clock.move(std::chrono::seconds(60));
    run.restart(workers);
    const JobStatus status = run.coordinator->wait(job, std::chrono::seconds(10));
    CHECK(status.state == JobState::failed);
    CHECK(status.reason.find("deadline") != std::string::npos);
  }
}

TEST_CASE("models of old rounds go, those of the newest rounds stay, over restarts too") {
  Restarts run(2);
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 5), {}).id;
  for (int round = 1; round <= 5; ++round)
    workers[0].train(workers[0].task(), constant(static_cast<float>(round)));
  CHECK(run.coordinator->wait(job, std::chrono::seconds(10)).state == JobState::completed);
  const auto stored = [&] { return run.options().store->list("jobs/").size(); };
  CHECK(eventually([&] { return stored() == 2; }));
  run.restart(workers);
  CHECK(stored() == 2);
  CHECK(run.value(job, std::uint32_t{4}) == 4.0F);
  CHECK(run.value(job) == 5.0F);
  try {
    run.coordinator->job_model(job, std::uint32_t{2});
    FAIL("the model of round 2 is still there");
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::not_found);
    CHECK(error.message().find("not kept any more") != std::string::npos);
  }
  CHECK(run.coordinator->job(job).rounds.size() == 5);
}

TEST_CASE("objects that a crash has left are swept at the start; what is referenced stays") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(2);
  const Id job = run.coordinator->submit(run.config(workers, 1), {}).id;
  const Task task = workers[0].task();
  workers[0].upload(task, constant(1));  // stored, not reported
  const std::size_t before = run.options().store->list("").size();
  const std::string folder = "jobs/" + std::to_string(job) + "/rounds/";
  for (const std::string &key :
       {folder + "1/global-9.safetensors", folder + "7/updates-9/worker-1-lease-1.safetensors",
        std::string("datasets/1/other.safetensors"), std::string("models/1/other")}) {
    run.options().store->create(key)->commit();
  }
  run.restart(workers);
  CHECK(run.options().store->list("").size() == before);
  CHECK(run.options().store->stat(task.upload->key).bytes > 0);
  CHECK(workers[0].train(task, constant(1)).accepted);
}

TEST_CASE("a job whose weights are not there any more after a restart fails, with the reason; others go on") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 2), {}).id;
  CHECK(workers[0].train(workers[0].task(), constant(1)).accepted);
  CHECK(eventually([&] { return run.coordinator->job(job).round == 2; }));
  const Id other = run.coordinator->submit(run.config(workers, 1), {}).id;
  const std::string key = run.coordinator->job_model(job).key;
  run.coordinator.reset();
  SECTION("gone") { run.options().store->remove(key); }
  SECTION("other bytes") { run.options().store->create(key)->commit(); }
  run.restart(workers);
  const JobStatus status = run.coordinator->wait(job, std::chrono::seconds(10));
  CHECK(status.state == JobState::failed);
  CHECK(status.reason.find("after a restart its weights are not as they were") != std::string::npos);
  const Task task = workers[0].task();
  CHECK(task.job_id == other);
  CHECK(workers[0].train(task, constant(2)).accepted);
  CHECK(run.coordinator->wait(other, std::chrono::seconds(10)).state == JobState::completed);
}

TEST_CASE("a store and a journal that do not belong together are refused") {
  Restarts run;
  run.coordinator.reset();
  CoordinatorOptions options = run.options();
  SECTION("another journal") { options.journal = make_memory_journal(); }
  SECTION("an empty store") { options.store = make_memory_store(); }
  SECTION("the store of another journal") {
    options.store = make_memory_store();
    CoordinatorOptions other = options;
    other.journal = make_memory_journal();
    make_coordinator(other);
  }
  try {
    make_coordinator(options);
    FAIL("it started");
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::conflict);
    CHECK(error.message().find("store") != std::string::npos);
  }
}

TEST_CASE("a journal that cannot write for now holds answers back, and refuses who comes meanwhile") {
  const auto journal = std::make_shared<FailingJournal>();
  CoordinatorOptions options;
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  journal->full = true;
  std::atomic<bool> answered{false};
  std::thread waiting([&] {
    small.coordinator->add_worker({"a"});
    answered = true;
  });
  CHECK(eventually([&] { return !small.coordinator->failure().empty(); }));
  CHECK(small.coordinator->failure().find("no space left") != std::string::npos);
  try {
    small.coordinator->add_worker({"b"});
    FAIL("it was taken");
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::unavailable);
    CHECK(error.message().find("no space left") != std::string::npos);
  }
  CHECK(small.coordinator->datasets().size() == 1);
  CHECK(eventually([&] { return journal->refused > 1; }));
  CHECK(!answered);
  journal->full = false;
  waiting.join();
  CHECK(small.coordinator->failure().empty());
  CHECK(small.coordinator->workers().size() == 1);
}

TEST_CASE(
    "who waits for a journal that cannot write is answered in bounded time, and its change is kept later") {
  const auto journal = std::make_shared<FailingJournal>();
  CoordinatorOptions options;
  options.journal = journal;
  MovedClock clock;
  SmallJob small(constant(0), 12, options,
                 [&](const auto &with) { return coordinator::make_coordinator(with, clock); });
  journal->full = true;
  auto waiting =
      std::async(std::launch::async, [&] { return error_of([&] { small.coordinator->add_worker({"a"}); }); });
  REQUIRE(eventually([&] { return journal->refused > 0; }));
  SECTION("by the time") {
    clock.move(limits::kJournalReplyTimeout);
    const Error error = waiting.get();
    CHECK(error.code() == ErrorCode::unavailable);
    CHECK(error.message().find("may yet be made") != std::string::npos);
    CHECK(!small.coordinator->failure().empty());
    journal->full = false;
    CHECK(eventually([&] { return small.coordinator->failure().empty(); }));
    CHECK(small.coordinator->workers().size() == 1);
  }
  SECTION("by a stop") {
    small.coordinator->stop();
    CHECK(waiting.get().code() == ErrorCode::unavailable);
  }
}

TEST_CASE("time in which the journal takes nothing ends no lease, and no round") {
  const bool is_full = GENERATE(true, false);  // else one commit takes long
  const auto journal = std::make_shared<FailingJournal>();
  CoordinatorOptions options = lasting(limits::kKeepRoundsDefault);
  options.journal = journal;
  MovedClock clock;
  const auto make = [&](const auto &with) { return coordinator::make_coordinator(with, clock); };
  SmallJob small(constant(0), 12, options, make);
  std::vector<ManualWorker> workers = small.join(2);
  const Id job = small.coordinator->submit(small.config(2, 2)).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());
  const auto left = [&] { return small.coordinator->job(job).deadline_seconds.value_or(0); };
  const auto live = [&] {
    return std::ranges::count_if(small.coordinator->workers(),
                                 [](const WorkerInfo &info) { return info.live; });
  };
  clock.move(std::chrono::seconds(10));
  for (ManualWorker &worker : workers)
    worker.transport().heartbeat({.lease = worker.lease(), .progress = {}});

  Gate gate;
  if (is_full) {
    journal->full = true;
  } else {
    journal->slow = &gate;
  }
  auto waiting = std::async(std::launch::async, [&]() -> std::optional<Error> {
    try {
      small.coordinator->add_worker({"a"});
    } catch (const Error &error) {
      return error;
    }
    return std::nullopt;
  });
  CHECK((is_full ? eventually([&] { return !small.coordinator->failure().empty(); }) : gate.reached()));
  clock.move(std::chrono::minutes(10));
  if (is_full)
    CHECK_THROWS_AS(workers[0].transport().heartbeat({.lease = workers[0].lease(), .progress = {}}), Error);
  journal->full = false;
  gate.open();
  // Whoever waited for so long may have been answered before the journal went on.
  const std::optional<Error> told = waiting.get();
  CHECK((!told || (is_full && told->code() == ErrorCode::unavailable)));
  CHECK(eventually([&] { return left() > 40; }));
  CHECK(left() <= 50);
  CHECK(live() == 2);
  CHECK(small.coordinator->job(job).state == JobState::running);
  SECTION("the round goes on, with the leases that there were") {
    for (std::size_t i = 0; i < 2; ++i) CHECK(workers[i].train(tasks[i], constant(3)).accepted);
    CHECK(small.ended(job).state == JobState::completed);
  }
  SECTION("the later deadline is kept") {
    small.coordinator.reset();
    small.coordinator = make(options);
    CHECK(left() > 40);
    CHECK(left() <= 50);
  }
  SECTION("leases end all the same when no heartbeat comes from now on, and so does the round") {
    clock.move(options.lease_duration);
    CHECK(eventually([&] { return live() == 0; }));
    clock.move(std::chrono::seconds(50));
    CHECK(eventually([&] { return small.coordinator->job(job).state == JobState::failed; }));
  }
}

TEST_CASE("a model is shown when its round is in the journal, not before") {
  const auto journal = std::make_shared<FailingJournal>("rounds");
  CoordinatorOptions options;
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  ManualWorker worker = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  const Task task = worker.task();
  Gate gate;
  journal->slow = &gate;
  CHECK(worker.train(task, constant(3)).accepted);
  REQUIRE(gate.reached());
  auto shown = std::async(std::launch::async, [&] {
    const std::string key = small.coordinator->job_model(job).key;
    return std::pair(key, journal->slow_commits.load());
  });
  CHECK(shown.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  gate.open();
  const auto [key, commits] = shown.get();
  CHECK(commits == 1);
  CHECK(key.find("/global-1") != std::string::npos);
}

TEST_CASE("/readyz gives the reason while nothing can be changed, and /healthz stays up") {
  const auto journal = std::make_shared<FailingJournal>();
  CoordinatorOptions options;
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  const CoordinatorServer server(*small.coordinator, loopback_serving());
  http::HttpClient client;
  const auto get = [&](const std::string &path) {
    http::HttpClientRequest request;
    request.url = server.url() + path;
    return client.perform(request);
  };
  CHECK(get("/readyz").status == 200);

  journal->full = true;
  std::thread waiting([&] { small.coordinator->add_worker({"a"}); });
  CHECK(eventually([&] { return get("/readyz").status == 503; }));
  const auto refused = get("/readyz");
  CHECK(refused.headers.at("Content-Type") == "application/problem+json");
  CHECK(refused.body.find("\"code\":\"unavailable\"") != std::string::npos);
  CHECK(refused.body.find("no space left on device") != std::string::npos);
  CHECK(get("/healthz").status == 200);

  journal->full = false;
  waiting.join();
  CHECK(get("/readyz").status == 200);
}

TEST_CASE("a broken journal stops all change and tells everybody; reads stay up") {
  const auto journal = std::make_shared<FailingJournal>();
  CoordinatorOptions options;
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  ManualWorker worker = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1, 3)).id;
  const Task task = worker.task();
  const Report report = worker.upload(task, constant(1));
  journal->broken = true;
  CHECK_THROWS_AS(worker.transport().report(report), Error);
  CHECK(small.coordinator->failure().find("could not be flushed") != std::string::npos);
  journal->broken = false;  // it is never tried again
  CHECK_THROWS_AS(small.coordinator->add_worker({"b"}), Error);
  CHECK(small.coordinator->job(job).id == job);
  CHECK_THROWS_AS(small.coordinator->wait(job, std::chrono::seconds(10)), Error);
}

TEST_CASE("a worker that is live but does no step is reported as stalled, once, and goes on to count") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 1), {}).id;
  const Task task = workers[0].task();
  Heartbeat heartbeat = workers[0].training(task);
  const auto beat = [&](std::int64_t seconds) {
    run.clock.move(std::chrono::seconds(seconds));
    workers[0].transport().heartbeat(heartbeat);
  };
  run.options().stall_timeout = std::chrono::seconds(20);
  run.restart(workers);
  for (int i = 0; i < 4; ++i) beat(10);
  CHECK(event_texts(*run.coordinator, job, "worker_stalled").size() == 1);
  CHECK(run.coordinator->job(job).workers.at(0).stalled);
  heartbeat.progress->step = 1;
  beat(1);
  CHECK(!run.coordinator->job(job).workers.at(0).stalled);
  CHECK(workers[0].train(task, constant(2)).accepted);
  CHECK(run.coordinator->wait(job, std::chrono::seconds(10)).state == JobState::completed);
}

TEST_CASE("a worker that hangs is reported, whatever it was doing, and whether it has begun or not") {
  Restarts run;
  run.options().stall_timeout = std::chrono::seconds(20);
  std::vector<ManualWorker> workers = run.join(1);
  run.restart(workers);
  const Id job = run.coordinator->submit(run.config(workers, 1), {}).id;
  const Task task = workers[0].task();
  const std::string phase = GENERATE("no progress", "", "downloading", "evaluating", "uploading");
  Heartbeat heartbeat = workers[0].training(task);
  heartbeat.progress->phase = phase;
  if (phase == "no progress") heartbeat.progress.reset();
  const bool begun = heartbeat.progress && !phase.empty();
  const auto beat = [&] {
    run.clock.move(std::chrono::seconds(10));
    workers[0].transport().heartbeat(heartbeat);
  };
  workers[0].transport().heartbeat(heartbeat);
  beat();
  CHECK(event_texts(*run.coordinator, job, "worker_stalled").empty());
  CHECK_FALSE(run.coordinator->job(job).workers.at(0).stalled);
  beat();
  beat();
  const std::vector<std::string> texts = event_texts(*run.coordinator, job, "worker_stalled");
  REQUIRE(texts.size() == 1);
  const std::string expected =
      !begun ? "has not begun its task of round 1 for 20 s" : "has been " + phase + " for 20 s";
  CHECK(texts[0].find(expected) != std::string::npos);
  CHECK(run.coordinator->job(job).workers.at(0).stalled);
  // It goes on, or begins.
  heartbeat = workers[0].training(task);
  workers[0].transport().heartbeat(heartbeat);
  CHECK_FALSE(run.coordinator->job(job).workers.at(0).stalled);
  CHECK(workers[0].train(task, constant(2)).accepted);
  CHECK(run.coordinator->wait(job, std::chrono::seconds(10)).state == JobState::completed);
}

TEST_CASE("one that hangs in a task that is over is reported for the task that it does not begin") {
  Restarts run;
  run.options().stall_timeout = std::chrono::seconds(20);
  std::vector<ManualWorker> workers = run.join(1);
  run.restart(workers);
  JobConfig config = run.config(workers, 1);
  config.distributed->fault_tolerance = 2;
  const Id job = run.coordinator->submit(config, {}).id;
  const Task over = workers[0].task();
  const Heartbeat heartbeat = workers[0].training(over);
  const auto stalled = [&] {
    const auto texts = event_texts(*run.coordinator, job, "worker_stalled");
    return std::ranges::any_of(texts, [](const std::string &text) {
      return text.find("has not begun its task") != std::string::npos;
    });
  };
  // The deadline of the first attempt passes, and it is invited to the second.
  for (int i = 0; i < 8; ++i) {
    workers[0].transport().heartbeat(heartbeat);
    run.clock.move(std::chrono::seconds(10));
  }
  CHECK_FALSE(stalled());
  for (int i = 0; i < 3; ++i) {
    workers[0].transport().heartbeat(heartbeat);
    run.clock.move(std::chrono::seconds(10));
  }
  CHECK(stalled());
}

TEST_CASE("a report whose answer was lost is a repeat, even when its round or its job has ended since") {
  Restarts run;
  std::vector<ManualWorker> workers = run.join(1);
  const Id job = run.coordinator->submit(run.config(workers, 2), {}).id;
  const Report first = workers[0].upload(workers[0].task(), constant(1));
  CHECK(workers[0].transport().report(first).accepted);
  CHECK(eventually([&] { return run.coordinator->job(job).round == 2; }));
  const bool restarts = GENERATE(false, true);
  if (restarts) run.restart(workers);
  CHECK(workers[0].transport().report(first).duplicate);
  const Report second = workers[0].upload(workers[0].task(), constant(2));
  CHECK(workers[0].transport().report(second).accepted);
  const JobStatus ended = run.coordinator->wait(job, std::chrono::seconds(10));
  CHECK(ended.state == JobState::completed);
  if (restarts) run.restart(workers);
  CHECK(workers[0].transport().report(second).duplicate);
  Report other = second;
  other.sha256 = first.sha256;
  CHECK(workers[0].transport().report(other).code == "job_ended");
  CHECK(run.coordinator->job(job).rounds.size() == 2);
}
