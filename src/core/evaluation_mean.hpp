// What several workers measured of one model, as one value.
//
// Thread-safety: free functions without state; a FiniteMean has one user.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parsyn/trainer.hpp"

namespace parsyn::core {

/// Weighted mean of the values that are finite: one worker's NaN does not hide what the others measured.
class FiniteMean {
 public:
  /// A weight of 0 adds nothing.
  void add(double value, std::uint64_t weight);
  /// Where no value is finite, the first one as it came; nothing without values.
  std::optional<double> value() const { return weight_ > 0 ? mean_ : not_finite_; }

 private:
  double mean_ = 0;
  double weight_ = 0;
  std::optional<double> not_finite_;
};

/// Whether `accuracy` can be a share of right classes. False for NaN.
constexpr bool is_accuracy(double accuracy) { return accuracy >= 0 && accuracy <= 1; }

/// `evaluation`, without an accuracy that cannot be one.
Evaluation without_impossible_accuracy(Evaluation evaluation);

/// Mean weighted by examples, in the order given; its accuracy is of those that measured one. None weighs
/// more than the validation set has examples, whatever a worker states. Nothing when nobody measured an
/// example.
std::optional<Evaluation> mean_of(const std::vector<Evaluation> &evaluations, std::uint64_t examples_max);

}  // namespace parsyn::core
