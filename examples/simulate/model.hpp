// What the virtual workers train: with libtorch an MLP, 784-200-200-10, else softmax regression in plain C++.
#pragma once

#include <memory>
#include <optional>

#include "parsyn/coordinator.hpp"
#include "parsyn/trainer.hpp"

namespace simulate {

struct Model {
  parsyn::ModelSpec spec;
  std::optional<parsyn::StateDict> weights;  ///< Absent: drawn from the job's seed.
  std::shared_ptr<parsyn::TrainerFactory> trainer_factory;
};

Model make_model();

}  // namespace simulate
