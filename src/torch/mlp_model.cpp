#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "parsyn/error.hpp"
#include "torch/model.hpp"

namespace parsyn::torch {

namespace {

using Activation = at::Tensor (*)(const at::Tensor &);

Activation activation_of(const std::string &name) {
  if (name == "relu") return [](const at::Tensor &x) { return at::relu(x); };
  if (name == "tanh") return [](const at::Tensor &x) { return at::tanh(x); };
  if (name == "gelu") return [](const at::Tensor &x) { return at::gelu(x); };
  if (name == "sigmoid") return [](const at::Tensor &x) { return at::sigmoid(x); };
  throw Error(ErrorCode::invalid_argument, "The model's activation '" + name +
                                               "' is none of \"relu\", \"tanh\", \"gelu\" and \"sigmoid\".");
}

class MlpModel : public Model {
 public:
  MlpModel(std::vector<NamedTensor> state, Activation activation) : Model(state), activation_(activation) {
    for (NamedTensor &entry : state) parameters_.push_back(std::move(entry.tensor));
  }

  at::Tensor forward(const at::Tensor &input) override {
    at::Tensor values = input.dim() == 2 ? input : input.reshape({input.size(0), -1});
    for (std::size_t i = 0; i < parameters_.size(); i += 2) {
      if (i > 0) values = activation_(values);
      values = at::linear(values, parameters_[i], parameters_[i + 1]);
    }
    return values;
  }
  void set_training(bool) override {}
  bool draws_random_numbers() const override { return false; }
  bool normalises_batches() const override { return false; }

 private:
  Activation activation_;
  std::vector<at::Tensor> parameters_;  ///< Weight and bias, layer by layer.
};

}  // namespace

std::unique_ptr<Model> make_mlp_model(const ModelDescription &description, at::Device device) {
  const Activation activation = activation_of(description.activation);
  const auto &sizes = description.sizes;
  if (sizes.size() < 2)
    throw Error(ErrorCode::invalid_argument, "The model's sizes are " + shape_text(sizes) +
                                                 "; an mlp has at least an input and an output size.");
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const auto inputs = static_cast<std::int64_t>(sizes[i]);
    const auto outputs = static_cast<std::int64_t>(sizes[i + 1]);
    if (inputs <= 0 || outputs <= 0)
      throw Error(ErrorCode::invalid_argument,
                  "The model's sizes are " + shape_text(sizes) + "; each must be at least 1.");
    const std::string layer = "layers." + std::to_string(i);
    const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
    state.push_back({layer + ".weight", at::zeros({outputs, inputs}, options).set_requires_grad(true)});
    state.push_back({layer + ".bias", at::zeros({outputs}, options).set_requires_grad(true)});
  }
  return std::make_unique<MlpModel>(std::move(state), activation);
}

}  // namespace parsyn::torch
