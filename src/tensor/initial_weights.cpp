#include "tensor/initial_weights.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {
namespace {

constexpr std::uint64_t kMlpStream =
    0x6d6c70;  // "mlp": keeps these draws apart from others of the same seed.
constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 31;

/// The number of parameters of an mlp of these sizes.
std::uint64_t checked_mlp_parameters(const std::vector<std::uint64_t> &sizes) {
  if (sizes.size() < 2) {
    throw Error(ErrorCode::invalid_argument,
                "an mlp needs at least 2 sizes, input and output, but has " + std::to_string(sizes.size()));
  }
  std::uint64_t elements = 0;
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
    if (sizes[layer] == 0) {
      throw Error(ErrorCode::invalid_argument,
                  "sizes[" + std::to_string(layer) + "] of an mlp is 0; all must be at least 1");
    }
    if (layer == 0) continue;
    const std::uint64_t inputs = sizes[layer - 1];
    const std::uint64_t outputs = sizes[layer];
    // Divisions instead of products, which might wrap: outputs * (inputs + 1) elements must still fit.
    const std::uint64_t left = kElementsMax - elements;
    if (inputs >= kElementsMax || outputs > left / (inputs + 1)) {
      throw Error(ErrorCode::invalid_argument, "an mlp of sizes " + shape_text(sizes) + " has more than " +
                                                   std::to_string(kElementsMax) + " parameters");
    }
    elements += outputs * (inputs + 1);
  }
  return elements;
}

std::vector<float> uniform(core::Random &random, std::uint64_t count, double bound,
                           const CancelQuery &cancelled) {
  // Some milliseconds of draws.
  constexpr std::uint64_t kPieceElements = std::uint64_t{1} << 20;
  std::vector<float> values(count);
  for (std::uint64_t done = 0; done < count; done += kPieceElements) {
    if (cancelled && cancelled())
      throw Error(ErrorCode::cancelled,
                  "the initial weights were not drawn to the end: nobody waits for them");
    const std::uint64_t end = std::min(count, done + kPieceElements);
    for (std::uint64_t i = done; i < end; ++i)
      values[i] = static_cast<float>((random.unit() * 2 - 1) * bound);
  }
  return values;
}

}  // namespace

namespace tensor {

std::uint64_t initial_parameter_count(const ModelDescription &model) {
  if (model.kind != "mlp") {
    throw Error(ErrorCode::invalid_argument,
                "a model of kind \"" + model.kind +
                    "\" has no documented initialisation; only \"mlp\" has: register its "
                    "initial weights with the model");
  }
  return checked_mlp_parameters(model.sizes);
}

StateDict initial_weights(const ModelDescription &model, std::uint64_t seed, const CancelQuery &cancelled) {
  initial_parameter_count(model);
  core::Random random(core::derive_seed({seed, kMlpStream}));
  StateDict state;
  for (std::size_t layer = 0; layer + 1 < model.sizes.size(); ++layer) {
    const std::uint64_t inputs = model.sizes[layer];
    const std::uint64_t outputs = model.sizes[layer + 1];
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    const std::string name = "layers." + std::to_string(layer);
    state[name + ".weight"] =
        make_f32_tensor({outputs, inputs}, uniform(random, outputs * inputs, bound, cancelled));
    state[name + ".bias"] = make_f32_tensor({outputs}, uniform(random, outputs, bound, cancelled));
  }
  return state;
}

}  // namespace tensor

StateDict initial_weights(const ModelDescription &model, std::uint64_t seed) {
  return tensor::initial_weights(model, seed, {});
}

}  // namespace parsyn
