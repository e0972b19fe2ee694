#include "sim/plan.hpp"

#include <algorithm>

#include "core/random.hpp"

namespace parsyn::sim {
namespace {

constexpr std::uint64_t kPlanSeedPart = 0x706C616E;  // "plan"

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(core::derive_seed({seed, kPlanSeedPart})) {
    plan_.coordinator_only = seed % 4 == 0;
  }

  Plan run() {
    const int workers = between(2, 5);
    for (int i = 0; i < workers; ++i) plan_.workers.push_back(worker());
    const int jobs = between(1, 3);
    for (int i = 0; i < jobs; ++i) plan_.jobs.push_back(job(i));
    const Time first(4'000);
    plan_.calm = first + ms(20'000, plan_.coordinator_only ? 60'000 : 150'000);
    const int faults = between(1, plan_.coordinator_only ? 6 : 12);
    for (int i = 0; i < faults; ++i) {
      FaultPlan fault = this->fault();
      fault.at = first + Time(below(static_cast<std::uint64_t>((plan_.calm - first).count())));
      plan_.faults.push_back(fault);
    }
    std::ranges::stable_sort(plan_.faults, {}, &FaultPlan::at);
    return std::move(plan_);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  int between(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  Time ms(int least, int most) { return Time(between(least, most)); }

  WorkerPlan worker() {
    WorkerPlan worker;
    worker.starts = ms(500, 6'000);
    worker.step = ms(20, 300);
    worker.local_examples = static_cast<std::uint64_t>(between(5, 60));
    if (plan_.coordinator_only) return worker;
    if (one_in(6)) worker.step *= 8;
    if (one_in(5)) worker.fails_of_thousand = static_cast<std::uint64_t>(between(50, 500));
    if (one_in(6)) worker.nan_of_thousand = static_cast<std::uint64_t>(between(50, 500));
    if (one_in(8)) worker.local_examples = 0;
    return worker;
  }

  JobPlan job(int number) {
    const int workers = static_cast<int>(plan_.workers.size());
    JobPlan job;
    job.key = "key-" + std::to_string(number);
    job.local = one_in(3);
    job.mlp = one_in(2);
    job.examples = static_cast<std::uint64_t>(between(workers, 60));
    if (!job.local && !one_in(3)) job.validation_examples = static_cast<std::uint64_t>(between(1, 9));
    job.submitted = ms(1'500, 25'000);
    if (one_in(2)) job.submitted_again = job.submitted + ms(0, 90'000);

    JobConfig &config = job.config;
    config.name = "job " + std::to_string(number);
    config.seed = random_.bits() >> 1;
    config.config.epochs = static_cast<std::uint32_t>(between(1, 3));
    config.config.batch_size = 8;
    std::vector<int> able;
    for (int i = 0; i < workers; ++i) {
      if (!job.local || plan_.workers[static_cast<std::size_t>(i)].local_examples > 0) able.push_back(i);
    }
    const bool distributed = plan_.coordinator_only || !one_in(8);
    if (!distributed) {
      if (able.empty()) job.local = false;
      return job;
    }
    if (able.size() < 2) job.local = false;
    const int most = job.local ? static_cast<int>(able.size()) : workers;
    DistributedConfig &rounds = config.distributed.emplace();
    rounds.num_rounds = static_cast<std::uint32_t>(between(2, 5));
    rounds.steps_per_round = static_cast<std::uint32_t>(between(2, 12));
    rounds.min_workers = static_cast<std::uint32_t>(between(1, most));
    rounds.max_workers = static_cast<std::uint32_t>(between(static_cast<int>(rounds.min_workers), workers));
    rounds.aggregation_timeout = static_cast<std::uint32_t>(between(8, 60));
    rounds.fault_tolerance = static_cast<std::uint32_t>(between(1, 3));
    if (one_in(2)) {
      // All that can, and some that cannot.
      for (int i = 0; i < workers; ++i) job.selected.push_back(i);
      if (!job.local) {
        random_.shuffle(job.selected);
        job.selected.resize(static_cast<std::size_t>(between(static_cast<int>(rounds.min_workers), workers)));
      }
    }
    if (plan_.coordinator_only) {
      job.selected.clear();
      for (int i = 0; i < workers; ++i) job.selected.push_back(i);
      rounds.min_workers = rounds.max_workers = static_cast<std::uint32_t>(workers);
      rounds.aggregation_timeout = 3'600;
      rounds.fault_tolerance = 1;
      return job;
    }
    if (one_in(8)) job.stopped = job.submitted + ms(1'000, 90'000);
    if (one_in(8)) job.cancelled = job.submitted + ms(1'000, 90'000);
    return job;
  }

  FaultPlan fault() {
    using Kind = FaultPlan::Kind;
    FaultPlan fault;
    const std::uint64_t kinds =
        static_cast<std::uint64_t>(plan_.coordinator_only ? Kind::set_clock : Kind::partition) + 1;
    fault.kind = static_cast<Kind>(below(kinds));
    if (fault.kind == Kind::flush_fails && !one_in(2)) fault.kind = Kind::crash_at_operation;
    fault.worker = static_cast<int>(below(plan_.workers.size()));
    fault.number = below(1'000);
    switch (fault.kind) {
      case Kind::kill_coordinator:
      case Kind::crash_coordinator:
      case Kind::kill_at_operation:
      case Kind::crash_at_operation:
      case Kind::stop_coordinator:
        fault.lasts = one_in(4) ? ms(5'000, 30'000) : ms(50, 4'000);
        break;
      case Kind::disk_full:
        fault.lasts = ms(500, 20'000);
        break;
      case Kind::kill_worker:
        fault.lasts = one_in(2) ? ms(100, 5'000) : ms(5'000, 40'000);
        break;
      default:
        fault.lasts = ms(1'000, 40'000);
        break;
    }
    if (fault.kind == Kind::disk_full || fault.kind == Kind::flush_fails) plan_.disk_fails = true;
    if (fault.kind == Kind::bad_network) plan_.corrupts = true;
    return fault;
  }

  core::Random random_;
  Plan plan_;
};

}  // namespace

std::string_view fault_name(FaultPlan::Kind kind) {
  switch (kind) {
    case FaultPlan::Kind::kill_coordinator:
      return "kill the coordinator";
    case FaultPlan::Kind::crash_coordinator:
      return "crash the coordinator's computer";
    case FaultPlan::Kind::kill_at_operation:
      return "kill the coordinator at a disk operation";
    case FaultPlan::Kind::crash_at_operation:
      return "crash the coordinator's computer at a disk operation";
    case FaultPlan::Kind::stop_coordinator:
      return "stop the coordinator";
    case FaultPlan::Kind::disk_full:
      return "the disk is full";
    case FaultPlan::Kind::flush_fails:
      return "a flush fails";
    case FaultPlan::Kind::set_clock:
      return "set a wall clock";
    case FaultPlan::Kind::kill_worker:
      return "kill a worker";
    case FaultPlan::Kind::second_process:
      return "start a second process of a worker";
    case FaultPlan::Kind::bad_network:
      return "a bad network";
    case FaultPlan::Kind::partition:
      return "a partition";
  }
  return "";
}

Plan make_plan(std::uint64_t seed) { return Drawer(seed).run(); }

}  // namespace parsyn::sim
