// Which of the machine's two clocks a coordinator decides by.
#include "coordinator/make_coordinator.hpp"
#include "support/catch.hpp"
#include "support/moved_clock.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;
using std::chrono::hours;
using std::chrono::seconds;

TEST_CASE("fault 54: deadlines and leases are on the monotonic clock, however the wall clock is set") {
  MovedClock clock;
  SmallJob small;
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.join_window = seconds(0);
  small.coordinator = coordinator::make_coordinator(options, clock);
  small.dataset = small.coordinator->add_dataset("small", few_examples(12), std::nullopt).id;
  ModelSpec spec;
  spec.name = "small";
  spec.description.kind = "custom";
  small.model = small.coordinator->add_model(spec, constant(0)).id;
  std::vector<ManualWorker> workers = small.join(2);
  JobConfig config = small.config(1, 2);
  config.distributed->aggregation_timeout = 50;
  const Id job = small.coordinator->submit(config).id;
  const Task task_a = workers[0].task();
  const Task task_b = workers[1].task();
  // A heartbeat is refused when its lease has ended; it makes the coordinator look at its clock, too.
  const auto heartbeats = [&] {
    for (ManualWorker &worker : workers)
      worker.transport().heartbeat({.lease = worker.lease(), .progress = {}});
  };

  clock.set_wall(hours(1));
  clock.move(seconds(10));
  heartbeats();
  CHECK(small.coordinator->job(job).state == JobState::running);
  CHECK(small.coordinator->job(job).deadline_seconds.value() == Approx(40).margin(5));
  clock.set_wall(hours(-1000));
  clock.move(seconds(10));
  heartbeats();
  CHECK(small.coordinator->job(job).state == JobState::running);
  CHECK(small.coordinator->job(job).deadline_seconds.value() == Approx(30).margin(5));
  CHECK(workers[0].train(task_a, constant(3)).accepted);

  SECTION("a report before the deadline counts") {
    CHECK(workers[1].train(task_b, constant(5)).accepted);
    CHECK(small.ended(job).state == JobState::completed);
    CHECK(small.value(job) == 4.0F);
  }
  SECTION("and the deadline passes when its seconds have") {
    for (int i = 0; i < 3; ++i) {
      clock.move(seconds(10));
      heartbeats();
    }
    CHECK(small.ended(job).state == JobState::completed);
    CHECK(small.value(job) == 3.0F);
  }
}
