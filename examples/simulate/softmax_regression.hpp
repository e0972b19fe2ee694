// Softmax regression by stochastic gradient descent, in plain C++: for builds without libtorch.
//
// Tensors "weight", F32 [classes, inputs], and "bias", F32 [classes]. Inputs are bytes, scaled to [0, 1].
#pragma once

#include <cstdint>
#include <memory>

#include "parsyn/state_dict.hpp"
#include "parsyn/trainer.hpp"

namespace simulate {

parsyn::StateDict softmax_regression_zeros(std::uint64_t inputs, std::uint64_t classes);

class SoftmaxRegressionFactory final : public parsyn::TrainerFactory {
 public:
  parsyn::TrainerCapabilities capabilities() const override;
  std::unique_ptr<parsyn::Trainer> make_trainer(const parsyn::TrainerJob &job) override;
};

}  // namespace simulate
