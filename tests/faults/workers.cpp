// Public failure reports about workers that are late, twice there, too few or failing, each by its number.
#include <algorithm>
#include <set>
#include <thread>

#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/event_texts.hpp"
#include "support/http_objects.hpp"
#include "support/passing_transport.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

bool mentions(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Whether `job` keeps any model newer than the initial one.
bool has_newer_model(const SmallJob &small, Id job) {
  const auto keys = small.coordinator->store().list("jobs/" + std::to_string(job) + "/");
  return std::ranges::any_of(keys, [&](const std::string &key) {
    return mentions(key, "/global-") && key != small.coordinator->job_model(job, 0U).key;
  });
}

/// Passes everything on, and counts the questions.
class CountingTransport final : public PassingTransport {
 public:
  struct Counts {
    std::atomic<int> polls = 0;
    std::atomic<int> heartbeats = 0;
  };
  CountingTransport(std::unique_ptr<Transport> inner, Counts &counts)
      : PassingTransport(std::move(inner)), counts_(counts) {}

  std::optional<Task> next_task(const TaskPoll &poll) override {
    ++counts_.polls;
    return PassingTransport::next_task(poll);
  }
  HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) override {
    ++counts_.heartbeats;
    return PassingTransport::heartbeat(heartbeat);
  }

 private:
  Counts &counts_;
};

}  // namespace

TEST_CASE("fault 25: a report of an earlier round is refused with the current one, and counts for nothing") {
  const bool third_reports = GENERATE(true, false);
  SmallJob small(constant(5));
  std::vector<ManualWorker> workers = small.join(3);
  ManualWorker &a = workers[0];
  ManualWorker &b = workers[1];
  ManualWorker &w = workers[2];
  const Id job = small.coordinator->submit(small.config_for(workers, 2, 2)).id;
  const Report late = w.upload(w.task(), constant(1000));
  a.train(a.task(), constant(1));
  b.train(b.task(), constant(1));
  // W's session is lost for a moment: the round goes on without it.
  w.transport().close_session(w.lease());
  const Task task_a = a.task();
  const Task task_b = b.task();
  CHECK(task_a.round == 2);
  w.connect();
  const ReportReceipt receipt = w.transport().report(late);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "wrong_round");
  CHECK(receipt.current_round == 2);
  w.transport().close_session(w.lease());
  CHECK(a.train(task_a, constant(1)).accepted);
  if (third_reports) {
    CHECK(b.train(task_b, constant(1)).accepted);
  } else {
    b.fail(task_b, "out of memory");
  }
  const JobStatus status = small.ended(job);
  CHECK(status.state == (third_reports ? JobState::completed : JobState::failed));
  CHECK(small.value(job) == 1.0F);
}

TEST_CASE("fault 26: a worker that missed rounds is told the current one, and catches up at once") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(2);
  ManualWorker &a = workers[0];
  ManualWorker &w = workers[1];
  const Id job = small.coordinator->submit(small.config_for(workers, 1, 3)).id;
  const Report late = w.upload(w.task(), constant(1000));
  w.transport().close_session(w.lease());
  for (std::uint32_t round = 1; round <= 2; ++round) {
    const Task task = a.task();
    CHECK(task.round == round);
    a.train(task, constant(1));
  }
  const Task task_a = a.task();
  w.connect();
  const ReportReceipt receipt = w.transport().report(late);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "wrong_round");
  CHECK(receipt.current_round == 3);
  const Task task_w = w.task();
  CHECK(task_w.round == receipt.current_round);
  CHECK(w.train(task_w, constant(3)).accepted);
  CHECK(a.train(task_a, constant(1)).accepted);
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 2.0F);
}

TEST_CASE("fault 26: a report before round 1 exists is told the first round, and following that works") {
  SmallJob small;
  ManualWorker w = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(2, 2)).id;
  Report early;
  early.lease = w.lease();
  early.job_id = job;
  early.task_id = 1;
  early.sha256 = std::string(64, '0');
  early.num_examples = 6;
  const ReportReceipt receipt = w.transport().report(early);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "wrong_round");
  CHECK(mentions(receipt.reason, "the next one is round 1"));
  ManualWorker other = ManualWorker::join(*small.coordinator);
  for (ManualWorker *worker : {&w, &other}) {
    const Task task = worker->task();
    CHECK(task.round == 1);
    CHECK(worker->train(task, constant(1)).accepted);
  }
  CHECK(small.ended(job).state == JobState::completed);
}

TEST_CASE(
    "fault 30: of two processes with one worker's token the newer works and the older is told to stop") {
  SmallJob small;
  const WorkerCredentials credentials = small.coordinator->add_worker({"twice", WorkerKind::own});
  for (int trial = 0; trial < 50; ++trial) {
    const auto process = [&](const std::string &name) {
      return ManualWorker(make_in_process_transport(small.coordinator->worker_service(), credentials.token),
                          name + std::to_string(trial));
    };
    ManualWorker one = process("one");
    ManualWorker two = process("two");
    std::thread first([&] { one.connect(); });
    std::thread second([&] { two.connect(); });
    first.join();
    second.join();
    int accepted = 0;
    for (ManualWorker *worker : {&one, &two}) {
      try {
        worker->transport().heartbeat({.lease = worker->lease(), .progress = {}});
        ++accepted;
      } catch (const Error &error) {
        CHECK(error.code() == ErrorCode::conflict);
        REQUIRE(error.faults().size() == 1);
        CHECK(error.faults()[0].code == "lease_superseded");
      }
    }
    CHECK(accepted == 1);
  }
}

TEST_CASE("fault 31: a restarted worker is in the round again, and the old process's report is refused") {
  SmallJob small;
  const WorkerCredentials credentials = small.coordinator->add_worker({"restarts", WorkerKind::own});
  ManualWorker old_process(make_in_process_transport(small.coordinator->worker_service(), credentials.token),
                           "old");
  old_process.connect();
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  const Report late = old_process.upload(old_process.task(), constant(1000));
  ManualWorker new_process(make_in_process_transport(small.coordinator->worker_service(), credentials.token),
                           "new");
  new_process.connect();
  const Task task = new_process.task();
  const ReportReceipt receipt = old_process.transport().report(late);
  CHECK_FALSE(receipt.accepted);
  CHECK(receipt.code == "lease_expired");
  CHECK(new_process.train(task, constant(1)).accepted);
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 1.0F);
}

TEST_CASE("fault 32: all that are there take part, once each, whenever a fourth joins") {
  SECTION("while the round is drawn") {
    for (int trial = 0; trial < 20; ++trial) {
      SmallJob small;
      std::vector<ManualWorker> workers = small.join(3);
      std::vector<ManualWorker> joined;
      std::thread joins([&] { joined = small.join(1); });
      const Id job = small.coordinator->submit(small.config(2, 5)).id;
      joins.join();
      workers.push_back(std::move(joined[0]));
      const Stopwatch watch;
      while (!is_terminal(small.coordinator->job_state(job)) && watch.elapsed() < seconds(20)) {
        for (ManualWorker &worker : workers)
          if (worker.has_task()) worker.train(worker.task(), constant(2));
      }
      const JobStatus status = small.coordinator->job(job);
      CHECK(status.state == JobState::completed);
      std::set<Id> took_part;
      for (const Contribution &contribution : status.rounds.at(0).contributions) {
        CHECK(contribution.state == "valid");
        CHECK(took_part.insert(contribution.worker_id).second);
      }
      for (int i = 0; i < 3; ++i) CHECK(took_part.contains(workers[static_cast<std::size_t>(i)].id()));
      CHECK(took_part.size() <= 4);
    }
  }
  SECTION("while the round is open, with a place and a partition free") {
    SmallJob small;
    std::vector<ManualWorker> workers = small.join(3);
    const WorkerCredentials credentials = small.coordinator->add_worker({"late", WorkerKind::own});
    ManualWorker late(make_in_process_transport(small.coordinator->worker_service(), credentials.token));
    JobConfig config = small.config_for(workers, 2);
    config.distributed->max_workers = 5;
    config.worker_selection.worker_ids.push_back(credentials.worker.id);
    const Id job = small.coordinator->submit(config).id;
    for (ManualWorker &worker : workers) CHECK(worker.task().round == 1);
    late.connect();
    CHECK(late.train(late.task(), constant(2)).accepted);
    for (ManualWorker &worker : workers) CHECK(worker.train(worker.task(), constant(2)).accepted);
    const JobStatus status = small.ended(job);
    CHECK(status.state == JobState::completed);
    CHECK(status.rounds.at(0).contributions.size() == 4);
    CHECK(status.rounds.at(0).examples == 12);
  }
}

TEST_CASE("fault 33: a round of the minimum is done when all have reported; contradictions are refused") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(3);
  JobConfig config = small.config(3, 5);
  config.distributed->aggregation_timeout = 30;
  const Id job = small.coordinator->submit(config).id;
  for (ManualWorker &worker : workers) worker.train(worker.task(), constant(2));
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::completed);
  CHECK(status.rounds.at(0).contributions.size() == 3);
  CHECK(status.rounds.at(0).seconds < 2 * kSlowness);

  const auto refused_fields = [&](std::uint32_t min_workers, std::uint32_t max_workers) {
    std::set<std::string> fields;
    try {
      small.coordinator->submit(small.config(min_workers, max_workers));
    } catch (const Error &error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      for (const Fault &fault : error.faults()) fields.insert(fault.field);
    }
    return fields;
  };
  const std::string min_field = "distributed.min_workers";
  const std::string max_field = "distributed.max_workers";
  const auto contradiction = refused_fields(6, 5);
  CHECK((contradiction.contains(min_field) || contradiction.contains(max_field)));
  CHECK(refused_fields(0, 5).contains(min_field));
  CHECK(refused_fields(0, 0).contains(max_field));
  CHECK(small.coordinator->jobs().size() == 1);
}

TEST_CASE("fault 40: rounds in which every worker fails are no progress") {
  SmallJob small(constant(3));
  std::vector<ManualWorker> workers = small.join(2);
  const Id job = small.coordinator->submit(small.config(1, 2, 3)).id;
  std::vector<Task> tasks;
  for (ManualWorker &worker : workers) tasks.push_back(worker.task());
  workers[0].fail(tasks[0], "out of memory on device 0");
  workers[1].fail(tasks[1], "the disk is full");
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::failed);
  CHECK(mentions(status.reason, "out of memory on device 0"));
  CHECK(mentions(status.reason, "the disk is full"));
  CHECK(small.value(job) == 3.0F);
  CHECK_THROWS_AS(small.coordinator->job_model(job, 1U), Error);
  CHECK_FALSE(has_newer_model(small, job));
  for (const char *type : {"round_completed", "job_completed"})
    CHECK(event_texts(*small.coordinator, job, type).empty());
}

TEST_CASE("fault 41: fault_tolerance bounds the attempts, and none waits for a deadline that cannot help") {
  SmallJob small(constant(3));
  std::vector<ManualWorker> workers = small.join(2);
  JobConfig config = small.config(1, 2, 3);
  config.distributed->fault_tolerance = 2;
  config.distributed->aggregation_timeout = 3600;
  const Stopwatch watch;
  const Id job = small.coordinator->submit(config).id;
  std::uint64_t last_task = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::vector<Task> tasks;
    for (ManualWorker &worker : workers) tasks.push_back(worker.task());
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(tasks[i].task_id > last_task);
      workers[i].fail(tasks[i], "out of memory on device " + std::to_string(i));
    }
    last_task = tasks[1].task_id;
  }
  const JobStatus status = small.ended(job);
  CHECK(watch.elapsed() < kSlowness * seconds(2));
  CHECK(status.state == JobState::failed);
  CHECK(mentions(status.reason, "out of memory on device 0"));
  CHECK(mentions(status.reason, "out of memory on device 1"));
  CHECK(status.failed_rounds_in_a_row == 2);
  CHECK(status.rounds.at(0).failed_attempts == 2);
  for (ManualWorker &worker : workers) CHECK_FALSE(worker.has_task());
  // A terminal job never changes.
  CHECK_THROWS_AS(small.coordinator->stop_job(job), Error);
  CHECK_THROWS_AS(small.coordinator->cancel_job(job), Error);
}

TEST_CASE("fault 43: a worker is told within one heartbeat that its task is over, however the job ended") {
  const std::string how = GENERATE(as<std::string>{}, "completed", "cancelled", "failed");
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(2);
  JobConfig config = small.config(how == "failed" ? 2 : 1, 2);
  config.distributed->aggregation_timeout = how == "completed" ? 1 : 60;
  const Id job = small.coordinator->submit(config).id;
  const Task task_a = workers[0].task();
  const Task task_w = workers[1].task();
  const Heartbeat heartbeat = workers[1].training(task_w);
  CHECK(workers[1].transport().heartbeat(heartbeat).cancelled_tasks.empty());
  if (how == "completed") CHECK(workers[0].train(task_a, constant(1)).accepted);
  if (how == "cancelled") small.coordinator->cancel_job(job);
  if (how == "failed") workers[0].fail(task_a, "out of memory");
  CHECK(job_state_name(small.ended(job).state) == how);
  CHECK(workers[1].transport().heartbeat(heartbeat).cancelled_tasks ==
        std::vector<std::uint64_t>{task_w.task_id});
  CHECK_FALSE(workers[1].has_task());
}

TEST_CASE("fault 43: a worker whose job is over asks for the next one, and keeps no one busy with it") {
  CoordinatorOptions quick;
  quick.heartbeat_interval = milliseconds(50);
  quick.progress_interval = milliseconds(10);
  SmallJob small(constant(0), 12, quick);
  CountingTransport::Counts counts;
  WorkerOptions options;
  options.transport = std::make_unique<CountingTransport>(
      make_in_process_transport(small.coordinator->worker_service(),
                                small.coordinator->add_worker({"w", WorkerKind::own}).token),
      counts);
  options.trainer_factory = std::make_shared<CountingFactory>();
  const Worker worker(std::move(options));
  CHECK(small.ended(small.coordinator->submit(small.config(1, 1)).id).state == JobState::completed);
  const int heartbeats = counts.heartbeats;
  const Stopwatch watch;
  while (counts.heartbeats < heartbeats + 5 && watch.elapsed() < seconds(20)) std::this_thread::yield();
  CHECK(counts.heartbeats >= heartbeats + 5);
  // One that brought the task, one that waits, and a few about the end of the task and the report.
  CHECK(counts.polls <= 4);
}
