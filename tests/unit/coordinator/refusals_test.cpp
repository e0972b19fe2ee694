// Reports that are refused, and what a job's events say of them.
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/event_texts.hpp"
#include "support/objects.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("refused reports of a worker that has no part in a job are no events of it") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(1);
  ManualWorker stranger = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config_for(workers, 1)).id;
  const Task task = workers[0].task();
  Report report = stranger.report_for(task);
  report.num_examples = 1;
  CHECK_FALSE(stranger.transport().report(report).accepted);
  CHECK(event_texts(*small.coordinator, job, "report_refused").empty());
  workers[0].train(task, constant(1));
  CHECK(small.ended(job).state == JobState::completed);
}

TEST_CASE("a report that is refused again and again is told once") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(1);
  const Id job = small.coordinator->submit(small.config_for(workers, 1)).id;
  const Task task = workers[0].task();
  Report report = workers[0].report_for(task);
  report.round = 7;
  report.num_examples = 1;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(workers[0].transport().report(report).accepted);
  CHECK(event_texts(*small.coordinator, job, "report_refused").size() == 1);
}

TEST_CASE("a store that belongs to a journal is not used without it") {
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.journal = make_memory_journal();
  options.join_window = std::chrono::milliseconds(0);
  make_coordinator(options).reset();
  options.journal = nullptr;
  CHECK(error_of([&] { make_coordinator(options); }).code() == ErrorCode::conflict);
}
