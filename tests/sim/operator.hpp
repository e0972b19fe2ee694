// The people at the coordinator: they register workers, data and models, submit jobs, and look at what
// becomes of them. What fails because the coordinator is away they try again; what was acknowledged they
// remember.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parsyn/coordinator.hpp"
#include "sim/ledger.hpp"
#include "sim/plan.hpp"
#include "sim/world.hpp"

namespace parsyn::sim {

/// The name of the data that job number `number` finds at its workers.
std::string local_data_name(std::size_t number);

class Operator {
 public:
  /// `registered`: this worker (by its place in the plan) has been given its token.
  Operator(const Plan &plan, World &world, Ledger &ledger, std::function<void(std::size_t)> registered);

  /// Does what is due, as far as it can be done now. On a fiber of the coordinator's machine.
  void work(Coordinator &coordinator);
  /// Looks at all jobs and their events.
  void observe(Coordinator &coordinator);
  /// The next observation compares everything with what was seen before.
  void coordinator_restarted() {
    looks_anew_ = true;
    refusals_of_disk_ = 0;
  }

  const std::optional<WorkerCredentials> &worker(std::size_t place) const { return workers_[place]; }
  /// By the plan's order; 0: not acknowledged yet.
  Id job(std::size_t number) const { return jobs_[number].id; }
  bool is_done() const;
  /// The disk has failed under an object that a job needs: the coordinator knows only of a new start.
  bool wants_restart() const { return refusals_of_disk_ >= kRefusalsMax; }
  std::uint64_t observations() const { return observations_; }

 private:
  struct JobProgress {
    Id dataset = 0;
    Id model = 0;
    Id id = 0;
    bool submitted_again = false;
    bool stopped = false;
    bool cancelled = false;
    std::string final_document;
    std::uint64_t last_event = 0;
    std::map<std::uint64_t, std::string> events;
  };

  static constexpr int kRefusalsMax = 20;

  void work_on_job(std::size_t number, Coordinator &coordinator);
  void observe_job(std::size_t number, Coordinator &coordinator);
  JobConfig config_of(std::size_t number) const;
  void acknowledged(const char *table, Id id);
  void end(std::size_t number, bool &done, const char *what, const std::function<void(Id)> &call);

  const Plan &plan_;
  World &world_;
  Ledger &ledger_;
  std::function<void(std::size_t)> registered_;
  std::vector<std::optional<WorkerCredentials>> workers_;
  std::vector<JobProgress> jobs_;
  std::map<std::string, std::set<Id>> ids_;
  bool looks_anew_ = false;
  std::uint64_t observations_ = 0;
  int refusals_of_disk_ = 0;
};

}  // namespace parsyn::sim
