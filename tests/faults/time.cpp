// Public failure reports about time: deadlines, leases, slow and silent workers, each by its number.
#include <algorithm>
#include <thread>

#include "core/job.hpp"
#include "parsyn/http.hpp"
#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"
#include "support/idle_cutting_proxy.hpp"
#include "support/loopback_serving.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

/// The job's state machine, with the time as an argument; whatever it asks for is done at once.
class TimedJob {
 public:
  TimedJob(std::uint32_t min_workers, std::uint32_t max_workers, std::uint32_t rounds, std::uint32_t timeout,
           milliseconds join_window = milliseconds(0))
      : job_(setup(min_workers, max_workers, rounds, timeout, join_window)) {
    act(job_.start({}, Time(0)), Time(0));
  }

  void online(Id worker, Time now) {
    core::WorkerProfile profile;
    profile.id = worker;
    profile.lease = worker;
    profile.capabilities.model_kinds = {"custom"};
    act(job_.step(core::WorkerOnline{profile}, now), now);
  }
  /// A report that is accepted, and found valid at once.
  void report(Id worker, Time now) {
    core::UpdateReported reported;
    reported.report.worker = worker;
    reported.report.lease = worker;
    reported.report.round = job_.round();
    reported.report.sha256 = std::to_string(worker);
    reported.report.num_examples = kExamplesEach;
    const core::JobActions actions = job_.step(reported, now);
    REQUIRE(actions.answer);
    CHECK(actions.answer->verdict == ReportAnswer::Verdict::accepted);
    act(actions, now);
    act(job_.step(core::UpdateVerdict{worker, reported.report.round, job_.attempt(), {}}, now), now);
  }
  void tick(Time now) { act(job_.step(core::Tick{}, now), now); }

  const core::Job &state() const { return job_; }

 private:
  static constexpr std::uint64_t kExamplesEach = 100;

  static core::JobSetup setup(std::uint32_t min_workers, std::uint32_t max_workers, std::uint32_t rounds,
                              std::uint32_t timeout, milliseconds join_window) {
    core::JobSetup setup;
    setup.id = 1;
    setup.config.name = "timed";
    setup.config.seed = 1;
    setup.config.distributed = DistributedConfig{};
    setup.config.distributed->num_rounds = rounds;
    setup.config.distributed->min_workers = min_workers;
    setup.config.distributed->max_workers = max_workers;
    setup.config.distributed->aggregation_timeout = timeout;
    setup.model.kind = "custom";
    setup.train_examples = kExamplesEach * max_workers;
    setup.join_window = join_window;
    setup.examples_per_worker_max = 1'000'000;
    return setup;
  }

  void act(const core::JobActions &actions, Time now) {
    if (actions.make_partitions) {
      core::PartitionsMade made;
      made.examples.assign(*actions.make_partitions, kExamplesEach);
      act(job_.step(made, now), now);
    }
    if (!actions.aggregate.empty())
      act(job_.step(core::RoundAveraged{job_.round(), job_.attempt(), {}, "key", "sha", 1}, now), now);
  }

  core::Job job_;
};

/// Leases of this length, with what follows from it.
CoordinatorOptions leases_of(milliseconds lease) {
  CoordinatorOptions options;
  options.lease_duration = lease;
  options.heartbeat_interval = lease / 5;
  options.progress_interval = lease / 20;
  return options;
}

/// A coordinator that is reached over HTTP.
struct Served {
  explicit Served(const CoordinatorOptions &options = {}, StateDict initial = constant(0),
                  milliseconds url_lifetime = limits::kUrlLifetime)
      : small(std::move(initial), 12, options), server(*small.coordinator, serving(url_lifetime)) {}

  std::string token() { return small.coordinator->add_worker({"w", WorkerKind::own}).token; }
  std::unique_ptr<Transport> connect(const std::string &url) {
    HttpTransportOptions options;
    options.url = url;
    options.token = token();
    return make_http_transport(options);
  }
  ManualWorker join() {
    ManualWorker worker(connect(server.url()));
    worker.connect();
    return worker;
  }

  SmallJob small;
  CoordinatorServer server;

 private:
  static ServeOptions serving(milliseconds url_lifetime) {
    ServeOptions options = loopback_serving();
    options.url_lifetime = url_lifetime;
    return options;
  }
};

/// Keeps these workers' leases until the job has ended.
JobStatus ended_with_heartbeats(SmallJob &small, Id job, const std::vector<ManualWorker *> &alive) {
  const Stopwatch watch;
  for (;;) {
    const JobStatus status = small.coordinator->wait(job, milliseconds(20));
    if (is_terminal(status.state) || watch.elapsed() > seconds(20)) return status;
    for (ManualWorker *worker : alive)
      worker->transport().heartbeat({.lease = worker->lease(), .progress = {}});
  }
}

/// Trains for this long, whatever else happens.
void train_for(milliseconds duration, const TrainMonitor &monitor) {
  const Stopwatch watch;
  test::Event never;
  while (watch.elapsed() < duration && !monitor.cancelled()) never.wait(1, milliseconds(10));
}

WorkerOptions quick_worker(std::unique_ptr<Transport> transport, std::shared_ptr<TrainerFactory> factory) {
  WorkerOptions options;
  options.transport = std::move(transport);
  options.trainer_factory = std::move(factory);
  options.backoff_first = milliseconds(5);
  options.backoff_max = milliseconds(50);
  return options;
}

}  // namespace

TEST_CASE(
    "fault 34: a round of three ends with two when the third is dead, at its lease's end or the deadline") {
  const bool lease_ends_first = GENERATE(true, false);
  SmallJob small(constant(0), 12, leases_of(lease_ends_first ? milliseconds(1000) : seconds(60)));
  std::vector<ManualWorker> workers = small.join(3);
  JobConfig config = small.config(2, 3);
  config.distributed->aggregation_timeout = lease_ends_first ? 3600 : 1;
  const Id job = small.coordinator->submit(config).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());
  CHECK(workers[0].train(tasks[0], constant(1)).accepted);
  CHECK(workers[1].train(tasks[1], constant(3)).accepted);
  const JobStatus status = ended_with_heartbeats(small, job, {&workers[0], &workers[1]});
  CHECK(status.state == JobState::completed);
  CHECK(small.value(job) == 2.0F);
  const RoundRecord &record = status.rounds.at(0);
  CHECK(record.contributions.at(2).state == "lost");
  CHECK(record.seconds < 2.0 * kSlowness);
  if (!lease_ends_first) CHECK(record.seconds >= 1);
}

TEST_CASE("fault 35: the deadline, and the end of a lease, close a round without any traffic") {
  const bool lease_ends_first = GENERATE(true, false);
  SmallJob small(constant(0), 12, leases_of(lease_ends_first ? milliseconds(1000) : seconds(60)));
  std::vector<ManualWorker> workers = small.join(2);
  JobConfig config = small.config(1, 2);
  config.distributed->aggregation_timeout = lease_ends_first ? 3600 : 1;
  const Id job = small.coordinator->submit(config).id;
  workers[1].task();
  CHECK(workers[0].train(workers[0].task(), constant(4)).accepted);
  // Nobody calls the coordinator from here on: wait() only waits.
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::completed);
  CHECK(small.value(job) == 4.0F);
  CHECK(status.rounds.at(0).seconds < 1.5 * kSlowness);
  if (!lease_ends_first) CHECK(status.rounds.at(0).seconds >= 1);
}

TEST_CASE("fault 36: the next round opens as soon as everybody is in") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(3);
  const Id job = small.coordinator->submit(small.config(2, 3, 2)).id;
  for (ManualWorker &worker : workers) CHECK(worker.train(worker.task(), constant(1)).accepted);
  const Stopwatch watch;
  for (ManualWorker &worker : workers) {
    const Task task = worker.task();
    CHECK(task.round == 2);
    worker.train(task, constant(1));
  }
  CHECK(watch.elapsed() < kSlowness * seconds(2));
  CHECK(small.ended(job).state == JobState::completed);
}

TEST_CASE("fault 37 (i): waiting for workers uses up no deadline") {
  TimedJob timed(2, 2, 1, 3);
  timed.online(1, seconds(0));
  timed.tick(seconds(9));
  CHECK_FALSE(timed.state().deadline());
  timed.online(2, seconds(10));
  CHECK(timed.state().deadline() == seconds(13));
  timed.report(1, seconds(12));
  timed.report(2, milliseconds(12'900));
  CHECK(timed.state().state() == JobState::completed);
}

TEST_CASE("fault 37 (ii): each round has the whole time-out") {
  TimedJob timed(2, 2, 5, 3);
  timed.online(1, seconds(0));
  timed.online(2, seconds(0));
  for (int round = 1; round <= 5; ++round) {
    CHECK(timed.state().round() == static_cast<std::uint32_t>(round));
    CHECK(timed.state().deadline() == seconds(2 * (round - 1) + 3));
    timed.report(1, milliseconds(2000 * round - 500));
    timed.report(2, seconds(2 * round));
  }
  CHECK(timed.state().state() == JobState::completed);
}

TEST_CASE("fault 37 (iii): reports do not extend the deadline") {
  TimedJob timed(2, 5, 1, 3, seconds(5));
  for (Id worker = 1; worker <= 5; ++worker) timed.online(worker, seconds(0));
  REQUIRE(timed.state().round() == 1);
  timed.report(1, seconds(1));
  timed.report(2, seconds(2));
  timed.report(3, milliseconds(2900));
  CHECK(timed.state().deadline() == seconds(3));
  timed.tick(milliseconds(2999));
  CHECK(timed.state().state() == JobState::running);
  timed.tick(seconds(3));
  CHECK(timed.state().state() == JobState::completed);
  CHECK(timed.state().records().at(0).seconds == 3);
  CHECK(timed.state().records().at(0).examples == 300);
}

TEST_CASE("fault 38: a worker in long training is alive, and reports though its idle connections were cut") {
  const milliseconds lease(1000);
  Served served(leases_of(lease));
  IdleCuttingProxy middlebox(served.server.port(), milliseconds(700));
  const auto factory = std::make_shared<CountingFactory>();
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &monitor) {
    train_for(4 * lease, monitor);
  };
  Worker worker(quick_worker(served.connect(middlebox.url()), factory));
  // The first to be cut is the poll that waits for a task.
  const Stopwatch watch;
  test::Event never;
  while (middlebox.cuts() == 0 && watch.elapsed() < seconds(20)) never.wait(1, milliseconds(10));
  const Id job = served.small.coordinator->submit(served.small.config(1, 1)).id;
  const JobStatus status = served.small.ended(job);
  CHECK(middlebox.cuts() > 0);
  CHECK(status.state == JobState::completed);
  CHECK(served.small.value(job) == 1.0F);
  CHECK(status.rounds.at(0).failed_attempts == 0);
  CHECK(status.rounds.at(0).contributions.at(0).state == "valid");
  CHECK(status.rounds.at(0).seconds >= 4);
  CHECK(factory->rounds_trained == 1);
}

TEST_CASE("fault 39: a slow upload holds up neither its round nor the next job") {
  const std::uint64_t elements = 512 << 10;  // 2 MiB: 20 s at its pace
  Served served({}, constant(0, elements));
  ManualWorker a = served.join();
  ManualWorker b = served.join();
  ManualWorker slow = served.join();
  JobConfig config = served.small.config(2, 3);
  config.distributed->aggregation_timeout = 3;
  const Id job = served.small.coordinator->submit(config).id;
  const Task task_a = a.task();
  const Task task_b = b.task();
  const Task task_slow = slow.task();
  CHECK(a.train(task_a, constant(1, elements)).accepted);
  CHECK(b.train(task_b, constant(3, elements)).accepted);
  std::string update(elements * sizeof(float), 'x');
  RawConnection line(served.server.port());
  line.send("PUT " + task_slow.upload->url +
            " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(update.size()) + "\r\n\r\n");
  JobStatus status;
  do {
    line.send(std::string_view(update).substr(0, 1024));
    update.resize(update.size() - 1024);
    status = served.small.coordinator->wait(job, milliseconds(10));
  } while (!is_terminal(status.state) && update.size() > 1024);
  CHECK(status.state == JobState::completed);
  CHECK(served.small.value(job) == 2.0F);
  CHECK(status.rounds.at(0).contributions.at(2).state == "lost");
  CHECK(status.rounds.at(0).seconds >= 3);
  CHECK(status.rounds.at(0).seconds < 5 * kSlowness);

  config = served.small.config(2, 2);
  config.worker_selection.mode = SelectionMode::own;
  config.worker_selection.worker_ids = {a.id(), b.id()};
  const Id second = served.small.coordinator->submit(config).id;
  CHECK(a.train(a.task(), constant(5, elements)).accepted);
  CHECK(b.train(b.task(), constant(5, elements)).accepted);
  CHECK(served.small.ended(second).state == JobState::completed);
  // Its rest is of no use any more, and it is told so.
  line.send(update);
  CHECK(line.receive().starts_with("HTTP/1.1 403 "));
}

TEST_CASE("fault 42: a round that fails by its deadline ends the job at once, and for ever") {
  const bool lease_ends_first = GENERATE(true, false);
  SmallJob small(constant(7), 12, leases_of(lease_ends_first ? milliseconds(1000) : seconds(60)));
  std::vector<ManualWorker> workers = small.join(2);
  JobConfig config = small.config(2, 2, 3);
  config.distributed->aggregation_timeout = 2;
  const Stopwatch watch;
  const Id job = small.coordinator->submit(config).id;
  const Task unplugged = workers[1].task();
  const Report late = workers[1].upload(unplugged, constant(1));
  CHECK(workers[0].train(workers[0].task(), constant(1)).accepted);
  const JobStatus status = ended_with_heartbeats(small, job, {&workers[0]});
  CHECK(status.state == JobState::failed);
  CHECK(watch.elapsed() >= milliseconds(1990));  // both clocks are cut to milliseconds
  CHECK(watch.elapsed() < kSlowness * seconds(4));
  CHECK(small.value(job) == 7.0F);
  // Whatever comes now changes nothing.
  const ReportReceipt receipt = workers[1].transport().report(late);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "job_ended");
  workers[1].connect();
  workers[0].transport().close_session(workers[0].lease());
  CHECK_THROWS_AS(small.coordinator->stop_job(job), Error);
  CHECK_THROWS_AS(small.coordinator->cancel_job(job), Error);
  const JobStatus later = small.coordinator->job(job);
  CHECK(later.state == JobState::failed);
  CHECK(later.reason == status.reason);
  CHECK(later.ended_ms == status.ended_ms);
}

TEST_CASE("fault 46: a lone worker waits for nobody") {
  // Not even for the time in which others could join: the job takes no more than one.
  TimedJob timed(1, 1, 3, 60, seconds(5));
  timed.online(1, seconds(0));
  for (std::uint32_t round = 1; round <= 3; ++round) {
    CHECK(timed.state().state() == JobState::running);
    CHECK(timed.state().round() == round);
    timed.report(1, milliseconds(100 * round));
  }
  CHECK(timed.state().state() == JobState::completed);

  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  Worker worker(
      quick_worker(make_in_process_transport(small.coordinator->worker_service(),
                                             small.coordinator->add_worker({"w", WorkerKind::own}).token),
                   factory));
  JobConfig config = small.config(1, 1, 3);
  config.distributed->aggregation_timeout = 3600;
  const Stopwatch watch;
  const Id job = small.coordinator->submit(config).id;
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 3.0F);
  CHECK(watch.elapsed() < kSlowness * seconds(2));
}

TEST_CASE("fault 47: training outlives leases and URLs by far; the only deadline is aggregation_timeout") {
  const milliseconds lifetime(400);
  Served served(leases_of(milliseconds(1000)), constant(0), lifetime);
  const std::uint32_t count = std::min(16U, std::thread::hardware_concurrency() + 2);
  const auto factory = std::make_shared<CountingFactory>();
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &monitor) {
    train_for(5 * lifetime, monitor);
  };
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint32_t i = 0; i < count; ++i)
    workers.push_back(std::make_unique<Worker>(quick_worker(served.connect(served.server.url()), factory)));
  served.small.dataset = served.small.coordinator->add_dataset("more", few_examples(64), std::nullopt).id;
  const Id job = served.small.coordinator->submit(served.small.config(count, count)).id;
  const JobStatus status = served.small.ended(job);
  CHECK(status.state == JobState::completed);
  CHECK(served.small.value(job) == 1.0F);
  const RoundRecord &record = status.rounds.at(0);
  CHECK(record.failed_attempts == 0);
  CHECK(record.seconds >= 2);
  CHECK(record.contributions.size() == count);
  for (const Contribution &contribution : record.contributions) CHECK(contribution.state == "valid");
  CHECK(factory->rounds_trained == static_cast<int>(count));
}

TEST_CASE("fault 143: what a worker downloads is what its task names, or is refused") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(2);
  JobConfig config = small.config(1, 2, 2);
  config.distributed->aggregation_timeout = 1;
  const Id job = small.coordinator->submit(config).id;
  for (ManualWorker &worker : workers) CHECK(worker.train(worker.task(), constant(2)).accepted);
  const Task early = workers[0].task();
  const Task late = workers[1].task();
  const ObjectInfo published = small.coordinator->job_model(job, 1U);
  for (const Task &task : {early, late}) {
    CHECK(task.round == 2);
    CHECK(task.global.sha256 == published.sha256);
    CHECK(task.global.bytes == published.bytes);
  }
  CHECK(small.global(job, 1U) == workers[0].weights(early));
  CHECK(workers[0].train(early, constant(9)).accepted);
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 9.0F);
  // The next model is published: the old task's name never gives its bytes.
  const Error error = error_of([&] { workers[1].weights(late); });
  CHECK(error.code() == ErrorCode::forbidden);
}
