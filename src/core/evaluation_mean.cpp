#include "core/evaluation_mean.hpp"

#include <algorithm>
#include <cmath>

namespace parsyn::core {

void FiniteMean::add(double value, std::uint64_t weight) {
  if (weight == 0) return;
  if (!std::isfinite(value)) {
    if (!not_finite_) not_finite_ = value;
    return;
  }
  // Step by step instead of a sum, which large values would overflow.
  const auto added = static_cast<double>(weight);
  weight_ += added;
  mean_ = std::lerp(mean_, value, added / weight_);
}

Evaluation without_impossible_accuracy(Evaluation evaluation) {
  if (evaluation.accuracy && !is_accuracy(*evaluation.accuracy)) evaluation.accuracy.reset();
  return evaluation;
}

std::optional<Evaluation> mean_of(const std::vector<Evaluation> &evaluations, std::uint64_t examples_max) {
  FiniteMean loss;
  FiniteMean accuracy;
  Evaluation mean;
  for (const Evaluation &evaluation : evaluations) {
    const std::uint64_t examples = std::min(evaluation.num_examples, examples_max);
    loss.add(evaluation.loss, examples);
    if (evaluation.accuracy && is_accuracy(*evaluation.accuracy))
      accuracy.add(*evaluation.accuracy, examples);
    // The workers measured the same examples: the number is theirs, not the sum.
    if (mean.num_examples == 0) mean.num_examples = examples;
  }
  if (!loss.value()) return std::nullopt;
  mean.loss = *loss.value();
  mean.accuracy = accuracy.value();
  return mean;
}

}  // namespace parsyn::core
