// A trainer that computes next to nothing, always the same, and takes its simulated time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "parsyn/trainer.hpp"
#include "sim/world.hpp"

namespace parsyn::sim {

/// How one worker behaves, whichever process of it runs.
struct TrainerHabits {
  Time step{100};
  std::uint64_t fails_of_thousand = 0;
  std::uint64_t nan_of_thousand = 0;
  std::uint64_t seed = 0;
  /// Set when the faults are over: it then does what it should.
  bool calm = false;
  std::uint64_t tasks = 0;  ///< So far.
};

/// `habits` outlives it. What is trained follows from the weights, the worker, the job's seed and the round.
std::shared_ptr<TrainerFactory> make_trainer_factory(TrainerHabits &habits, Machine &machine);

}  // namespace parsyn::sim
