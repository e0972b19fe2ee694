// One seed, one world: a coordinator with its disk, workers, jobs, and the faults that befall them; and the
// rules that must hold whatever comes (ledger.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/hosts.hpp"

namespace parsyn::sim {

struct SimulationOptions {
  std::uint64_t seed = 0;
  bool print_trace = false;
  /// False: the same workers and jobs, and nothing happens to them.
  bool with_faults = true;
  Breakage breakage = Breakage::none;
  /// For the workers' caches; made and removed.
  std::filesystem::path scratch;
};

struct SimulationResult {
  std::string violation;  ///< Empty: all is well.
  std::uint64_t digest = 0;
  Time simulated{0};
  std::uint64_t starts = 0;  ///< Of the coordinator.
  std::uint64_t commits = 0;
  std::uint64_t rounds = 0;         ///< That succeeded.
  std::uint64_t reports = 0;        ///< That were acknowledged.
  std::vector<std::string> models;  ///< Of each job at its end: its state and the SHA-256 of the weights.
};

SimulationResult simulate(const SimulationOptions &options);

/// simulate(), and where nothing but the coordinator was disturbed, once more without faults: the models must
/// be the same.
SimulationResult simulate_and_compare(const SimulationOptions &options);

}  // namespace parsyn::sim
