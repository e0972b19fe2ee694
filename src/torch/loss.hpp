// The losses of a model description, by name, and what they ask of outputs and targets.
//
// cross_entropy: output [B, C] of scores, targets I64 [B] from 0 to C - 1. mse: output of the shape of the
// F32 targets; where one of the two has a last dimension of 1 that the other lacks, it is dropped. Losses are
// computed in F32, whatever type the model's output has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "parsyn/dataset.hpp"

namespace parsyn::torch {

class Loss {
 public:
  /// Throws Error(invalid_argument) for an unknown name.
  explicit Loss(const std::string &name);

  /// What can be said of `examples` before a model sees them. `role` is "training" or "validation".
  /// Throws Error(invalid_argument): targets of another type or shape, a negative label.
  void check_targets(const Examples &examples, std::string_view role) const;
  /// Throws Error(invalid_argument) when an output of this shape, for a batch of `examples`, has no such
  /// loss: another shape than the targets', or fewer classes than the largest label.
  void check_output(at::IntArrayRef output_shape, const Examples &examples, std::string_view role) const;

  /// Of a batch: the mean, differentiable. Throws Error(invalid_argument) when the shapes do not fit.
  at::Tensor mean(const at::Tensor &output, const at::Tensor &target) const;
  /// Of a batch: the sum over its examples, in double precision.
  double sum(const at::Tensor &output, const at::Tensor &target) const;

  bool has_classes() const { return has_classes_; }
  /// How many examples have their highest score at their label.
  static std::uint64_t count_right(const at::Tensor &output, const at::Tensor &target);

 private:
  void check_batch(at::IntArrayRef output_shape, at::IntArrayRef target_shape) const;

  bool has_classes_;
};

}  // namespace parsyn::torch
