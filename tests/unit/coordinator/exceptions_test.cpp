// What a host's objects, or a lack of memory, throw at the coordinator: it never ends the process, and never
// leaves a change half made.
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "coordinator/make_coordinator.hpp"
#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/eventually.hpp"
#include "support/hooked_store.hpp"
#include "support/moved_clock.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;
using std::chrono::seconds;

namespace {

enum class Thrown { none, no_memory, runtime_error, unknown };

void throw_if(Thrown fault) {
  switch (fault) {
    case Thrown::none:
      return;
    case Thrown::no_memory:
      throw std::bad_alloc();
    case Thrown::runtime_error:
      throw std::runtime_error("a fault of the test's");
    case Thrown::unknown:
      throw 42;
  }
}

/// Every event of a job asks it for the time of day: in the middle of a change.
class FaultyClock final : public system::Runtime {
 public:
  std::int64_t wall_ms() const override {
    throw_if(fault.exchange(Thrown::none));
    return moved.wall_ms();
  }
  Time now() const override { return moved.now(); }
  std::string boot_id() const override { return moved.boot_id(); }
  std::string random_hex(std::size_t bytes) override { return moved.random_hex(bytes); }
  std::uint64_t random_u64() override { return moved.random_u64(); }
  std::unique_ptr<system::Thread> start(std::function<void()> body) override {
    return moved.start(std::move(body));
  }
  std::unique_ptr<system::Signal> make_signal() override { return moved.make_signal(); }

  MovedClock moved;
  mutable std::atomic<Thrown> fault{Thrown::none};  ///< Thrown once.
};

/// A coordinator whose clock and store a test makes throw, and the one that comes after it.
class Faulty {
 public:
  explicit Faulty(CoordinatorOptions options = {})
      : options_(prepared(std::move(options), store_)),
        small(constant(0), 12, options_,
              [this](const auto &with) { return coordinator::make_coordinator(with, clock); }) {}

  void restart(ManualWorker &worker) {
    small.coordinator.reset();
    small.coordinator = coordinator::make_coordinator(options_, clock);
    worker.reach(*small.coordinator);
  }
  HookedStore &store() { return *store_; }
  std::string failure() const { return small.coordinator->failure(); }

  FaultyClock clock;

 private:
  static CoordinatorOptions prepared(CoordinatorOptions options, const std::shared_ptr<HookedStore> &store) {
    options.store = store;
    options.journal = make_memory_journal();
    options.join_window = seconds(0);
    return options;
  }

  std::shared_ptr<HookedStore> store_ = std::make_shared<HookedStore>();
  CoordinatorOptions options_;

 public:
  SmallJob small;
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE(
    "an exception in the middle of a report breaks the coordinator off; a restart has all of it or none") {
  const Thrown fault = GENERATE(Thrown::no_memory, Thrown::runtime_error, Thrown::unknown);
  Faulty run;
  ManualWorker worker = ManualWorker::join(*run.small.coordinator);
  const Id job = run.small.coordinator->submit(run.small.config(1, 1)).id;
  const Report report = worker.upload(worker.task(), constant(3));
  run.clock.fault = fault;
  const Error error = error_of([&] { worker.transport().report(report); });
  CHECK(error.code() == ErrorCode::unavailable);
  CHECK(mentions(error, "broke off"));
  CHECK(run.failure() == error.message());
  // Nothing is changed any more, reads go on, and nobody waits in vain.
  CHECK(error_of([&] { run.small.coordinator->add_worker({"late"}); }).code() == ErrorCode::unavailable);
  CHECK(run.small.coordinator->job(job).id == job);
  CHECK(error_of([&] { run.small.coordinator->wait(job, seconds(20)); }).code() == ErrorCode::unavailable);

  run.restart(worker);
  CHECK(run.failure().empty());
  const ReportReceipt receipt = worker.transport().report(report);
  CHECK(receipt.accepted);
  CHECK_FALSE(receipt.duplicate);
  CHECK(run.small.ended(job).state == JobState::completed);
  CHECK(run.small.value(job) == 3.0F);
}

TEST_CASE("an exception where nobody has asked for anything breaks the coordinator off, not the process") {
  const Thrown fault = GENERATE(Thrown::no_memory, Thrown::unknown);
  Faulty run;
  ManualWorker worker = ManualWorker::join(*run.small.coordinator);
  const Id job = run.small.coordinator->submit(run.small.config(1, 1)).id;
  const Task task = worker.task();
  SECTION("when time passes") {
    run.clock.fault = fault;
    run.clock.moved.move(seconds(16));  // the lease ends
    run.small.coordinator->job(job);    // and the loop looks at the clock
    CHECK(contains(run.failure(), "broke off"));
    run.restart(worker);
  }
  SECTION("when a check comes back") {
    run.store().before([&](std::string_view call, std::string_view key) {
      if (call == "stat" && contains(key, "/updates-")) run.clock.fault = fault;
    });
    CHECK(worker.train(task, constant(3)).accepted);
    CHECK(eventually([&] { return contains(run.failure(), "broke off"); }));
    run.store().before({});
    run.restart(worker);
    CHECK(run.small.ended(job).state == JobState::completed);
    CHECK(run.small.value(job) == 3.0F);
  }
  CHECK(run.failure().empty());
}

TEST_CASE("whatever a store throws, the process lives on, and no round waits for ever") {
  const std::string call = GENERATE("create", "open", "stat", "list", "remove");
  const Thrown fault = GENERATE(Thrown::no_memory, Thrown::runtime_error, Thrown::unknown);
  CAPTURE(call, static_cast<int>(fault));
  std::atomic<bool> thrown{false};
  Faulty run;
  ManualWorker worker = ManualWorker::join(*run.small.coordinator);
  const Id job = run.small.coordinator->submit(run.small.config(1, 1)).id;
  const Task task = worker.task();
  const Report report = worker.upload(task, constant(3));
  run.store().before([&](std::string_view called, std::string_view key) {
    const bool of_round = contains(key, "/updates-") || contains(key, "/global-1");
    if (called == call && of_round && !thrown.exchange(true)) throw_if(fault);
  });
  CHECK(worker.transport().report(report).accepted);
  if (fault == Thrown::unknown) {
    CHECK(eventually([&] { return !run.failure().empty(); }));
    CHECK(contains(run.failure(), "unknown type"));
    return;
  }
  const JobStatus status = run.small.ended(job);
  CHECK(eventually([&] { return thrown.load(); }));
  CHECK(run.failure().empty());
  // No memory comes again; another exception is taken at its word, and clean-up is nobody's business.
  const bool fails = fault == Thrown::runtime_error && call != "list" && call != "remove";
  CHECK(status.state == (fails ? JobState::failed : JobState::completed));
  if (fails) CHECK(contains(status.reason, "a fault of the test's"));
  if (!fails) CHECK(run.small.value(job) == 3.0F);
}

TEST_CASE("a log that throws holds nothing up, and neither does a trainer that has no memory") {
  const LogSink sink = [](const LogRecord &) { throw std::runtime_error("the log is full"); };
  CoordinatorOptions options;
  options.log = sink;
  Faulty run(options);
  run.store().before([](std::string_view call, std::string_view) {
    if (call == "remove") throw Error(ErrorCode::io, "the disk is read-only");
  });
  const auto factory = std::make_shared<CountingFactory>();
  std::atomic<bool> thrown{false};
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &) {
    if (!thrown.exchange(true)) throw std::bad_alloc();
  };
  WorkerOptions worker;
  worker.transport = make_in_process_transport(run.small.coordinator->worker_service(),
                                               run.small.coordinator->add_worker({"w"}).token);
  worker.trainer_factory = factory;
  worker.log = sink;
  Worker working(std::move(worker));
  JobConfig config = run.small.config(1, 1, 2);
  config.distributed->fault_tolerance = 2;
  const Id job = run.small.coordinator->submit(config).id;
  const JobStatus status = run.small.ended(job);
  CHECK(status.state == JobState::completed);
  CHECK(status.rounds.at(0).failed_attempts == 1);
  CHECK(run.small.value(job) == 2.0F);
  CHECK(run.failure().empty());
}

TEST_CASE(
    "stop() does not wait for objects that are removed one by one, nor for a digest of a whole update") {
  CoordinatorOptions options;
  options.threads = 1;
  Faulty run(options);
  std::vector<ManualWorker> workers = run.small.join(3);
  const Id job = run.small.coordinator->submit(run.small.config(3, 3)).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());

  SECTION("removals") {
    Gate gate;
    std::atomic<int> removed{0};
    run.store().before([&](std::string_view call, std::string_view) {
      if (call != "remove") return;
      ++removed;
      gate.wait();
    });
    for (std::size_t i = 0; i < 3; ++i) workers[i].train(tasks[i], constant(1));
    CHECK(run.small.ended(job).state == JobState::completed);
    CHECK(gate.reached());
    std::thread stopping([&] { run.small.coordinator->stop(); });
    CHECK(eventually([&] {
      try {
        run.small.coordinator->add_worker({"late"});
        return false;
      } catch (const Error &error) {
        return error.code() == ErrorCode::cancelled;
      }
    }));
    gate.open();
    stopping.join();
    run.small.coordinator.reset();
    CHECK(removed == 1);
  }
  SECTION("digests of updates that an earlier process has stored") {
    workers[0].train(tasks[0], constant(1));
    const Report kept = workers[1].upload(tasks[1], constant(2));
    const Report replaced = workers[2].upload(tasks[2], constant(3));
    std::atomic<int> stats{0};
    run.store().before([&](std::string_view call, std::string_view key) {
      if (call == "stat" && contains(key, "/updates-")) ++stats;
    });
    run.restart(workers[0]);
    workers[1].reach(*run.small.coordinator);
    workers[2].reach(*run.small.coordinator);
    run.small.coordinator->job(job);  // the tasks are handed out again by now
    workers[2].upload(tasks[2], constant(4));
    CHECK(workers[1].transport().report(kept).accepted);
    CHECK(workers[2].transport().report(replaced).accepted);
    const JobStatus status = run.small.ended(job);
    CHECK(status.state == JobState::failed);
    CHECK(contains(status.reason, "the stored update has SHA-256"));
    CHECK(stats == 0);
    run.small.coordinator.reset();
  }
}
