// What one seed stands for: workers, jobs, and what befalls them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/job_config.hpp"
#include "parsyn/round.hpp"

namespace parsyn::sim {

struct WorkerPlan {
  Time starts{0};
  Time step{100};
  std::uint64_t fails_of_thousand = 0;
  std::uint64_t nan_of_thousand = 0;
  std::uint64_t local_examples = 0;
};

struct JobPlan {
  JobConfig config;           ///< Without its ids, which are known when they are given out.
  std::vector<int> selected;  ///< Workers by place; empty: automatic.
  bool local = false;
  bool mlp = false;
  std::uint64_t examples = 0;
  std::uint64_t validation_examples = 0;
  std::string key;
  Time submitted{0};
  std::optional<Time> submitted_again;
  std::optional<Time> stopped;
  std::optional<Time> cancelled;
};

struct FaultPlan {
  enum class Kind {
    kill_coordinator,   ///< SIGKILL: the disk keeps what the system had still to write.
    crash_coordinator,  ///< Its computer fails: what was not flushed is lost, in part.
    kill_at_operation,  ///< The same in the middle of something that the disk is asked to do.
    crash_at_operation,
    stop_coordinator,  ///< As a clean shutdown does.
    disk_full,
    flush_fails,  ///< One flush fails.
    set_clock,
    kill_worker,
    second_process,  ///< With the token of a worker that runs.
    bad_network,
    partition,  ///< One way.
  };
  Kind kind = Kind::kill_coordinator;
  Time at{0};
  Time lasts{0};  ///< Until it is over, or until what was killed comes back.
  int worker = 0;
  std::uint64_t number = 0;  ///< Of disk operations until then; a draw for others.
};
std::string_view fault_name(FaultPlan::Kind kind);

struct Plan {
  std::vector<WorkerPlan> workers;
  std::vector<JobPlan> jobs;
  std::vector<FaultPlan> faults;
  /// Nothing but the coordinator is disturbed, and nobody is late: the models must be the same without
  /// faults.
  bool coordinator_only = false;
  Time calm{0};
  bool disk_fails = false;
  bool corrupts = false;
};

Plan make_plan(std::uint64_t seed);

}  // namespace parsyn::sim
