// A job that is kept, and goes on from what was kept: as if nothing had happened.
#include <algorithm>

#include "core/job.hpp"
#include "support/catch.hpp"

using namespace parsyn;
using namespace parsyn::core;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kExamplesEach = 100;

JobSetup setup_for(std::vector<Id> workers, std::uint32_t min_workers, std::uint32_t max_workers) {
  JobSetup setup;
  setup.id = 1;
  setup.config.name = "kept";
  setup.config.seed = 1;
  setup.config.distributed = DistributedConfig{};
  setup.config.distributed->min_workers = min_workers;
  setup.config.distributed->max_workers = max_workers;
  setup.config.distributed->num_rounds = 1;
  setup.config.distributed->aggregation_timeout = 60;
  setup.config.worker_selection.mode = SelectionMode::own;
  setup.config.worker_selection.worker_ids = std::move(workers);
  setup.model.kind = "mlp";
  setup.train_examples = 1'200;
  setup.validation_examples = 10;
  setup.examples_per_worker_max = 1'000'000;
  return setup;
}

/// A job, and who is live: what a driver knows of it.
class DrivenJob {
 public:
  explicit DrivenJob(const JobSetup &setup)
      : job_(setup), workers_(setup.config.worker_selection.worker_ids) {
    job_.start({}, now_);
    for (const Id worker : workers_) online(worker);
    PartitionsMade made;
    made.examples.assign(workers_.size(), kExamplesEach);
    step(made);
  }

  JobActions step(const JobEvent &event) { return job_.step(event, now_); }
  JobActions online(Id worker) {
    WorkerProfile profile;
    profile.id = worker;
    profile.lease = ++last_lease_;
    profile.capabilities.model_kinds = {"mlp"};
    live_[worker] = profile;
    return step(WorkerOnline{profile});
  }
  JobActions offline(Id worker) {
    live_.erase(worker);
    return step(WorkerOffline{worker});
  }
  JobActions fail(Id worker) {
    return step(TaskFailed{worker, live_[worker].lease, job_.round(), "out of memory"});
  }
  /// A report that is accepted, and found valid.
  JobActions report(Id worker) {
    UpdateReported reported;
    reported.report = {worker, live_[worker].lease, job_.round(), "sha256", kExamplesEach};
    const JobActions actions = step(reported);
    REQUIRE(actions.answer);
    CHECK(actions.answer->verdict == ReportAnswer::Verdict::accepted);
    return step(UpdateVerdict{worker, job_.round(), job_.attempt(), {}});
  }
  JobActions averaged() { return step(RoundAveraged{job_.round(), job_.attempt(), {}, "key", "sha", 1}); }

  /// The process ends, and another goes on from what was kept.
  JobActions restart() {
    KeptJob kept;
    kept.job = job_.snapshot();
    for (const Id worker : workers_) kept.seats.push_back(job_.seat(worker));
    kept.records = job_.records();
    kept.deadline = job_.deadline();
    kept.round_opened = job_.round_opened();
    const JobSetup setup = job_.setup();
    job_ = Job(setup, std::move(kept));
    std::vector<WorkerProfile> live;
    for (const auto &[id, profile] : live_) live.push_back(profile);
    return job_.resume(live, now_);
  }

  std::vector<Id> in_state(ParticipantState state) const {
    std::vector<Id> ids;
    for (const auto &[id, part] : job_.current()->participants()) {
      if (part.state == state) ids.push_back(id);
    }
    return ids;
  }
  Id standing_by() const {
    for (const Id worker : workers_) {
      if (!job_.current()->participants().contains(worker)) return worker;
    }
    return 0;
  }

  Job &job() { return job_; }
  Time now_{0};

 private:
  Job job_;
  std::vector<Id> workers_;
  std::map<Id, WorkerProfile> live_;
  std::uint64_t last_lease_ = 0;
};

std::vector<Id> ids_of(const std::vector<JobInvitation> &invitations) {
  std::vector<Id> ids;
  for (const JobInvitation &invitation : invitations) ids.push_back(invitation.worker);
  return ids;
}

}  // namespace

TEST_CASE("one that was lost, or failed, and came back stands by after a restart, as without one") {
  const bool fails = GENERATE(false, true);
  const auto run = [&](bool restarts) {
    DrivenJob driven(setup_for({1, 2, 3}, 2, 2));
    const std::vector<Id> first = driven.in_state(ParticipantState::training);
    REQUIRE(first.size() == 2);
    const Id third = driven.standing_by();
    // The third takes its place, and it comes back to none.
    CHECK(ids_of((fails ? driven.fail(first[0]) : driven.offline(first[0])).invite) ==
          std::vector<Id>{third});
    CHECK(driven.online(first[0]).invite.empty());
    if (restarts) driven.restart();
    const JobActions actions = driven.fail(third);
    CHECK(ids_of(actions.invite) == std::vector<Id>{first[0]});
    CHECK_FALSE(actions.ended);
    driven.report(first[0]);
    driven.report(first[1]);
    CHECK(driven.job().current()->state() == Round::State::aggregating);
  };
  run(false);
  run(true);
}

TEST_CASE("the record of a round says why it closed, after a restart while it was averaged too") {
  const bool restarts = GENERATE(false, true);
  const bool by_deadline = GENERATE(false, true);
  DrivenJob driven(setup_for({1, 2}, 1, 2));
  driven.report(1);
  if (by_deadline) {
    driven.now_ = seconds(60);
    driven.step(Tick{});
  } else {
    driven.report(2);
  }
  if (restarts) CHECK(driven.restart().aggregate.size() == (by_deadline ? 1 : 2));
  driven.averaged();
  REQUIRE(driven.job().records().size() == 1);
  CHECK(driven.job().records()[0].reason ==
        (by_deadline ? "the deadline has passed" : "every live worker has reported"));
}

TEST_CASE("others that are asked for the final evaluation are known after a crash") {
  const bool fails = GENERATE(false, true);
  JobSetup setup = setup_for({1, 2}, 1, 1);
  setup.config.distributed->num_rounds = 2;
  DrivenJob driven(setup);
  const Id first = driven.in_state(ParticipantState::training).at(0);
  driven.report(first);
  driven.averaged();
  const Id second = driven.in_state(ParticipantState::training).at(0);
  REQUIRE(first != second);
  driven.report(second);
  const JobActions asked = driven.averaged();
  REQUIRE(asked.evaluate.size() == 1);
  CHECK(asked.evaluate[0].worker == second);
  const JobActions others =
      fails ? driven.step(FinalEvaluation{second, {}, "out of memory"}) : driven.offline(second);
  REQUIRE(others.evaluate.size() == 1);
  CHECK(others.evaluate[0].worker == first);
  CHECK(others.changes.job);
  CHECK(driven.job().snapshot().evaluators.contains(first));
  const JobActions again = driven.restart();
  REQUIRE(again.evaluate.size() == 1);
  CHECK(again.evaluate[0].worker == first);
  CHECK(driven.step(FinalEvaluation{first, Evaluation{0.5, {}, 10}, {}}).ended);
  CHECK(driven.job().final_validation());
}

TEST_CASE("a deadline that is later, as no report could be taken, is kept so") {
  DrivenJob driven(setup_for({1, 2}, 2, 2));
  CHECK(driven.job().deadline() == seconds(60));
  driven.now_ = seconds(100);
  const JobActions actions = driven.step(HeldUp{seconds(70)});
  CHECK(actions.changes.job);
  CHECK(actions.wake_at == seconds(130));
  driven.restart();
  CHECK(driven.job().deadline() == seconds(130));
  driven.report(1);
  driven.now_ = seconds(130);
  CHECK(driven.step(Tick{}).ended);
  CHECK(driven.job().reason().find("the deadline has passed") != std::string::npos);
}
