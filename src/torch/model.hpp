// What the training loop needs of a model, whichever kind it is.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "parsyn/state_dict.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn::torch {

/// A parameter or buffer. Two entries may be one tensor: tied weights.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

class Model {
 public:
  explicit Model(std::vector<NamedTensor> state);
  virtual ~Model() = default;
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  /// `input` is [B, ...], F32 or I64. Differentiable in the parameters.
  virtual at::Tensor forward(const at::Tensor &input) = 0;
  virtual void set_training(bool training) = 0;
  /// True when forward() draws from libtorch's generators.
  virtual bool draws_random_numbers() const = 0;
  /// True when forward() in training needs several examples to take their variance.
  virtual bool normalises_batches() const = 0;

  /// The tensors that training changes, each once.
  std::vector<at::Tensor> trainable() const;

  /// Takes all weights from `weights`, or none: throws Error(invalid_argument) with every name that is
  /// missing or unexpected, another shape or type, or two values for tied names.
  void load(const StateDict &weights);
  /// Copies of all weights: tied ones under each of their names.
  StateDict save() const;

 private:
  void check(const StateDict &weights) const;

  std::vector<NamedTensor> state_;
};

/// Parameters "layers.I.weight" and "layers.I.bias"; the activation stands between layers, not after the
/// last. Throws Error(invalid_argument): fewer than two sizes, a size of 0, an unknown activation.
std::unique_ptr<Model> make_mlp_model(const ModelDescription &description, at::Device device);

/// Throws Error: not_found, corrupt_data, unsupported (its code runs when it is loaded), invalid_argument (no
/// forward).
std::unique_ptr<Model> make_torchscript_model(const std::string &path, at::Device device);

}  // namespace parsyn::torch
