#include <cmath>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "parsyn/trainer.hpp"
#include "support/catch.hpp"
#include "support/updates.hpp"
#include "tensor/initial_weights.hpp"

using namespace parsyn;

namespace {

ModelDescription mlp(std::vector<std::uint64_t> sizes) {
  ModelDescription model;
  model.kind = "mlp";
  model.sizes = std::move(sizes);
  return model;
}

}  // namespace

TEST_CASE("An mlp has one weight [out, in] and one bias [out] per layer, all F32") {
  const StateDict state = initial_weights(mlp({784, 200, 10}), 1);
  const std::vector<TensorSpec> expected{{"layers.0.bias", Dtype::f32, {200}},
                                         {"layers.0.weight", Dtype::f32, {200, 784}},
                                         {"layers.1.bias", Dtype::f32, {10}},
                                         {"layers.1.weight", Dtype::f32, {10, 200}}};
  CHECK(specs_of(state) == expected);
}

TEST_CASE("Initial weights lie within 1/sqrt(fan_in), spread evenly over both signs") {
  const StateDict state = initial_weights(mlp({400, 300, 2}), 7);
  for (const auto &[name, fan_in] : {std::pair{"layers.0.weight", 400.0}, {"layers.1.weight", 300.0}}) {
    const double bound = 1 / std::sqrt(fan_in);
    const std::vector<float> elements = f32_elements(state.at(name));
    double sum = 0;
    double squares = 0;
    for (const float element : elements) {
      if (std::abs(element) > bound * (1 + 1e-6)) FAIL(name << " has " << element);
      sum += element / bound;
      squares += element / bound * (element / bound);
    }
    const auto count = static_cast<double>(elements.size());
    CHECK(std::abs(sum / count) < 5 / std::sqrt(3 * count));
    CHECK(squares / count == Approx(1.0 / 3).epsilon(0.15));
  }
}

TEST_CASE("One seed gives one set of weights on every platform") {
  // The draws, recomputed from the documented generator: weight before bias, layer after layer, row-major.
  const auto mix = [](std::uint64_t state, std::uint64_t part) {
    state += part + 0x9E3779B97F4A7C15ULL;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    return state ^ (state >> 31);
  };
  std::mt19937_64 engine(mix(mix(0, 42), 0x6d6c70));
  const auto draw = [&](double bound) {
    return static_cast<float>((static_cast<double>(engine() >> 11) * 0x1p-53 * 2 - 1) * bound);
  };
  const StateDict state = initial_weights(mlp({2, 3, 1}), 42);
  for (const auto &[name, count, fan_in] : {std::tuple{"layers.0.weight", 6, 2.0},
                                            {"layers.0.bias", 3, 2.0},
                                            {"layers.1.weight", 3, 3.0},
                                            {"layers.1.bias", 1, 3.0}}) {
    std::vector<float> expected;
    for (int index = 0; index < count; ++index) expected.push_back(draw(1 / std::sqrt(fan_in)));
    CHECK(f32_elements(state.at(name)) == expected);
  }
  CHECK(initial_weights(mlp({2, 3, 1}), 42) == state);
  CHECK_FALSE(initial_weights(mlp({2, 3, 1}), 43) == state);
}

TEST_CASE("The parameters of an mlp are counted from its sizes, without drawing any") {
  std::uint64_t drawn = 0;
  for (const TensorSpec &spec : specs_of(initial_weights(mlp({5, 4, 3}), 1))) drawn += spec.element_count();
  CHECK(tensor::initial_parameter_count(mlp({5, 4, 3})) == drawn);
  // 8 GiB, were they drawn.
  CHECK(tensor::initial_parameter_count(mlp({65535, 32767})) == std::uint64_t{65536} * 32767);
}

TEST_CASE("Drawing initial weights ends when nobody waits for them") {
  int asked = 0;
  const auto error = test::thrown_by([&] {
    tensor::initial_weights(mlp({2048, 2048}), 1, [&] { return ++asked == 3; });
  });
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::cancelled);
  CHECK(asked == 3);
  CHECK(tensor::initial_weights(mlp({2, 3, 1}), 42, [] { return false; }) ==
        initial_weights(mlp({2, 3, 1}), 42));
}

TEST_CASE("A model that has no documented initialisation, or no sensible sizes, is refused") {
  const auto code_of = [](const ModelDescription &model) {
    const auto error = test::thrown_by([&] { initial_weights(model, 1); });
    const auto counted = test::thrown_by([&] { tensor::initial_parameter_count(model); });
    CHECK(counted.has_value() == error.has_value());
    if (error && counted) CHECK(counted->message() == error->message());
    return error ? error->code() : ErrorCode::ok;
  };
  ModelDescription custom = mlp({2, 1});
  custom.kind = "torchscript";
  CHECK(code_of(custom) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({})) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({5})) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({5, 0, 2})) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({0, 2})) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({1 << 16, 1 << 15})) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({UINT64_MAX, UINT64_MAX})) == ErrorCode::invalid_argument);
  CHECK(code_of(mlp({1, 1})) == ErrorCode::ok);
}
