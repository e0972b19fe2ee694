// A job that has ended: its events and losses are in the journal, and read from there when someone asks.
#include "support/catch.hpp"
#include "support/event_texts.hpp"
#include "support/eventually.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// What a worker says in the middle of its task.
void report_losses(ManualWorker &worker, const Task &task, const std::vector<double> &losses) {
  Heartbeat heartbeat = worker.training(task);
  heartbeat.progress->step = losses.size();
  heartbeat.progress->first_loss_step = 1;
  heartbeat.progress->losses = losses;
  worker.transport().heartbeat(heartbeat);
}

std::vector<std::string> described(const std::vector<Event> &events) {
  std::vector<std::string> texts;
  for (const Event &event : events)
    texts.push_back(std::to_string(event.sequence) + " " + event.type + " " + event.text);
  return texts;
}

using Places = std::vector<std::pair<std::uint32_t, Id>>;

Places places_of(const std::vector<LossSeries> &series) {
  Places places;
  for (const LossSeries &one : series) places.emplace_back(one.round, one.worker_id);
  return places;
}

/// All pages of at most `count_max`.
std::vector<LossSeries> paged(const Coordinator &coordinator, Id job, std::size_t count_max,
                              std::optional<std::uint32_t> round = {}) {
  std::vector<LossSeries> all;
  LossPlace after;
  for (;;) {
    const auto page = coordinator.losses_after(job, after, count_max, round);
    CHECK(page.size() <= count_max);
    if (page.empty()) return all;
    all.insert(all.end(), page.begin(), page.end());
    after = {page.back().round, page.back().worker_id};
  }
}

constexpr std::size_t kSteps = 1'000;

CoordinatorOptions lasting() {
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.journal = make_memory_journal();
  return options;
}

/// A job of two rounds on two workers, each with 1,000 losses in each round.
class TwoRounds {
 public:
  TwoRounds() : small(constant(0), 12, options) {
    workers = small.join(2);
    JobConfig config = small.config_for(workers, 2, 2);
    config.distributed->steps_per_round = kSteps;
    job = small.coordinator->submit(config).id;
  }

  void train(std::uint32_t round) {
    std::vector<Task> tasks;
    for (ManualWorker &worker : workers) tasks.push_back(worker.task());
    for (std::size_t i = 0; i < workers.size(); ++i) {
      CHECK(tasks[i].round == round);
      std::vector<double> losses;
      for (std::size_t step = 1; step <= kSteps; ++step) losses.push_back(static_cast<double>(step * round));
      report_losses(workers[i], tasks[i], losses);
    }
    if (round == 2) before = small.coordinator->events_after(job, 0, SIZE_MAX);
    for (std::size_t i = 0; i < workers.size(); ++i) CHECK(workers[i].train(tasks[i], constant(1)).accepted);
  }

  /// The end is committed, and the memory given back.
  bool is_unloaded() const {
    return eventually([&] { return event_texts(*small.coordinator, job, "worker_progress").empty(); });
  }

  const CoordinatorOptions options = lasting();
  SmallJob small;
  std::vector<ManualWorker> workers;
  Id job = 0;
  std::vector<Event> before;  // while round 2 runs
};

}  // namespace

TEST_CASE("the events of a job that has ended are those that it had, without the progress") {
  TwoRounds run;
  run.train(1);
  run.train(2);
  CHECK(run.small.ended(run.job).state == JobState::completed);
  REQUIRE(run.is_unloaded());
  const std::vector<Event> after = run.small.coordinator->events_after(run.job, 0, SIZE_MAX);
  CHECK(std::erase_if(run.before, [](const Event &event) { return event.type == "worker_progress"; }) > 0);
  REQUIRE(after.size() > run.before.size());
  CHECK(described({after.begin(), after.begin() + static_cast<std::ptrdiff_t>(run.before.size())}) ==
        described(run.before));
  CHECK(after.back().type == "job_completed");
  CHECK(run.small.coordinator->last_event(run.job) == after.back().sequence);

  // In pages, from the middle, behind the end.
  std::vector<Event> pages;
  for (std::uint64_t last = 0;;) {
    const auto page = run.small.coordinator->events_after(run.job, last, 3);
    CHECK(page.size() <= 3);
    if (page.empty()) break;
    pages.insert(pages.end(), page.begin(), page.end());
    last = page.back().sequence;
  }
  CHECK(described(pages) == described(after));
  CHECK(run.small.coordinator->events_after(run.job, UINT64_MAX, 10).empty());
}

TEST_CASE("losses are read in pages, by round and worker, of a job that runs and of one that has ended") {
  TwoRounds run;
  const Id first = run.workers[0].id();
  const Id second = run.workers[1].id();
  const Coordinator &coordinator = *run.small.coordinator;
  run.train(1);
  run.train(2);
  CHECK(run.small.ended(run.job).state == JobState::completed);
  REQUIRE(run.is_unloaded());

  const Places all{{1, first}, {1, second}, {2, first}, {2, second}};
  CHECK(places_of(coordinator.losses(run.job)) == all);
  for (const std::size_t count_max : {1U, 2U, 3U, 100U})
    CHECK(places_of(paged(coordinator, run.job, count_max)) == all);
  CHECK(places_of(paged(coordinator, run.job, 1, 2U)) == Places{{2, first}, {2, second}});
  CHECK(paged(coordinator, run.job, 10, 3U).empty());
  CHECK(coordinator.losses(run.job, 0U).empty());
  // What is kept is a curve of some points.
  const std::vector<LossSeries> round_2 = coordinator.losses(run.job, 2U);
  REQUIRE(round_2.size() == 2);
  for (const LossSeries &series : round_2) {
    CHECK(series.losses.size() > 200);
    CHECK(series.losses.size() <= limits::kLossesKeptPerWorkerRound);
    for (const auto &[step, loss] : series.losses) CHECK(loss == static_cast<double>(2 * step));
  }
}

TEST_CASE("a page of losses ends with the series that reaches its number of points") {
  SmallJob small;
  std::vector<ManualWorker> workers = small.join(60);
  JobConfig config = small.config_for(workers, 60);
  config.dataset_id = small.coordinator->add_dataset("larger", few_examples(60), std::nullopt).id;
  config.distributed->steps_per_round = 1'999;
  const Id job = small.coordinator->submit(config).id;
  for (ManualWorker &worker : workers) report_losses(worker, worker.task(), std::vector<double>(1'999, 0.5));
  const auto page = small.coordinator->losses_after(job, {}, SIZE_MAX);
  // 51 of 1,999 points each are the first to be over 100,000.
  CHECK(page.size() == 51);
  CHECK(small.coordinator->losses(job).size() == 60);
  CHECK(paged(*small.coordinator, job, 7).size() == 60);
}

TEST_CASE("what is told of a job that has ended stays as it was when its memory is given back") {
  TwoRounds run;
  run.train(1);
  run.train(2);
  const auto told = run.small.ended(run.job).workers;
  REQUIRE(run.is_unloaded());
  const auto later = run.small.coordinator->job(run.job).workers;
  REQUIRE(later.size() == told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    CHECK(told[i].last_loss == 2'000.0);
    CHECK(later[i].last_loss == told[i].last_loss);
  }
}

TEST_CASE("after a restart, events and losses of a job that has ended come from the journal") {
  TwoRounds run;
  run.train(1);
  run.train(2);
  CHECK(run.small.ended(run.job).state == JobState::completed);
  REQUIRE(run.is_unloaded());
  const auto events = described(run.small.coordinator->events_after(run.job, 0, SIZE_MAX));
  const auto last = run.small.coordinator->last_event(run.job);
  const auto losses = run.small.coordinator->losses(run.job);
  run.workers.clear();
  run.small.coordinator.reset();
  run.small.coordinator = make_coordinator(run.options);
  CHECK(described(run.small.coordinator->events_after(run.job, 0, SIZE_MAX)) == events);
  CHECK(run.small.coordinator->last_event(run.job) == last);
  const auto again = run.small.coordinator->losses(run.job);
  REQUIRE(again.size() == losses.size());
  for (std::size_t i = 0; i < again.size(); ++i) CHECK(again[i].losses == losses[i].losses);
}
