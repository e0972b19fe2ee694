#include <cmath>
#include <numbers>

#include "parsyn/trainer.hpp"

namespace parsyn {

double learning_rate_at(const TrainingConfig &config, std::uint64_t step, std::uint64_t total_steps) {
  if (step < config.warmup_steps) {
    const double share = static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
    return config.learning_rate * share;
  }
  if (config.lr_schedule == LearningRateSchedule::constant) return config.learning_rate;
  // Past the end, and where the warm-up takes up the whole job, nothing of the decay is left.
  if (step >= total_steps) return 0.0;
  const double progress = static_cast<double>(step - config.warmup_steps) /
                          static_cast<double>(total_steps - config.warmup_steps);
  if (config.lr_schedule == LearningRateSchedule::linear) return config.learning_rate * (1.0 - progress);
  return config.learning_rate * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace parsyn
