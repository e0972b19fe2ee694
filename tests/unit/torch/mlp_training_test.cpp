// What training computes, on models that are small enough to check by hand.
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "training_support.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

StateDict linear_weights(std::vector<std::uint64_t> shape, const std::vector<float> &weight,
                         const std::vector<float> &bias) {
  StateDict state;
  state["layers.0.weight"] = make_f32_tensor(std::move(shape), weight);
  state["layers.0.bias"] = make_f32_tensor({bias.size()}, bias);
  return state;
}

/// One example whose cross-entropy has the gradient -1 for row 0 and +1 for row 1, exactly, wherever the
/// weights go in a few steps: the wrong class is ahead by 100.
struct ConstantGradient {
  Examples examples = labelled({1, 1}, {1.0F}, {0});
  StateDict weights = linear_weights({2, 1}, {0, 0}, {0, 100});
  TrainerJob job = mlp_job({1, 2}, &examples);

  static float moved(const StateDict &state) { return f32_elements(state.at("layers.0.weight"))[1]; }
};

}  // namespace

TEST_CASE("A step of SGD on a linear model moves it by the gradient that a hand computes") {
  // Predictions 0.5*1 - 0.25*2 + 0.1 = 0.1 and 0.5*3 + 0.25*1 + 0.1 = 1.85; residuals -0.9 and 1.85.
  Examples examples{make_f32_tensor({2, 2}, {1, 2, 3, -1}), make_f32_tensor({2, 1}, {1, 0})};
  TrainerJob job = mlp_job({2, 1}, &examples);
  job.model.loss = "mse";
  RecordingMonitor monitor;
  const StateDict result =
      trainer_for(job)->train(linear_weights({1, 2}, {0.5F, -0.25F}, {0.1F}), {1, 1, 0}, monitor);
  const auto weight = f32_elements(result.at("layers.0.weight"));
  // Gradients: mean of 2 * residual * input: -0.9 + 5.55 = 4.65, -1.8 - 1.85 = -3.65; of the bias 0.95.
  CHECK(weight[0] == Approx(0.5 - 0.465).margin(1e-6));
  CHECK(weight[1] == Approx(-0.25 + 0.365).margin(1e-6));
  CHECK(f32_elements(result.at("layers.0.bias"))[0] == Approx(0.1 - 0.095).margin(1e-6));
  CHECK(monitor.losses.at(0) == Approx((0.81 + 3.4225) / 2));
  CHECK(monitor.batch_examples.at(0) == 2);
}

TEST_CASE("fault 56: the optimiser's state starts anew each round") {
  ConstantGradient setting;
  setting.job.config.momentum = 0.9;
  const StateDict first = trained(setting.job, setting.weights, 1, 1);
  CHECK(ConstantGradient::moved(trained(setting.job, first, 1, 2)) == Approx(-0.20).margin(1e-7));
  // Within a round it is kept.
  CHECK(ConstantGradient::moved(trained(setting.job, setting.weights, 2)) == Approx(-0.29).margin(1e-7));
}

TEST_CASE("fault 56: the learning rate's schedule counts global steps") {
  ConstantGradient setting;
  setting.job.config.lr_schedule = LearningRateSchedule::linear;
  setting.job.total_steps = 10;
  const StateDict first = trained(setting.job, setting.weights, 5, 1);
  CHECK(ConstantGradient::moved(first) == Approx(-0.1 * (1.0 + 0.9 + 0.8 + 0.7 + 0.6)).margin(1e-6));
  const StateDict second = trained(setting.job, setting.weights, 5, 2);
  CHECK(ConstantGradient::moved(second) == Approx(-0.1 * (0.5 + 0.4 + 0.3 + 0.2 + 0.1)).margin(1e-6));
}

TEST_CASE("Gradients are clipped by their global norm") {
  ConstantGradient setting;  // Gradients -1, 1 of the weight and -1, 1 of the bias: norm 2.
  setting.job.config.max_grad_norm = 1.0;
  CHECK(ConstantGradient::moved(trained(setting.job, setting.weights, 1)) == Approx(-0.05).margin(1e-7));
  setting.job.config.max_grad_norm = 2.5;
  CHECK(ConstantGradient::moved(trained(setting.job, setting.weights, 1)) == Approx(-0.1).margin(1e-7));
}

TEST_CASE("Weight decay pulls to zero: added to SGD's gradient, apart from AdamW's") {
  ConstantGradient setting;
  setting.weights = linear_weights({2, 1}, {0, 2}, {0, 100});
  setting.job.config.weight_decay = 0.5;
  CHECK(ConstantGradient::moved(trained(setting.job, setting.weights, 1)) == Approx(2 - 0.1 * (1 + 0.5 * 2)));
  setting.job.config.optimizer = Optimizer::adamw;
  CHECK(ConstantGradient::moved(trained(setting.job, setting.weights, 1)) == Approx(2 - 0.1 * 0.5 * 2 - 0.1));
}

TEST_CASE("The same job, round and weights give the same bytes, and another round others") {
  const Examples examples = many_labelled({37, 6}, 3);
  TrainerJob job = mlp_job({6, 8, 3}, &examples);
  job.config.batch_size = 5;
  job.config.momentum = 0.9;
  const StateDict start = initial_weights(job.model, 3);
  const StateDict result = trained(job, start, 12);
  CHECK(trained(job, start, 12) == result);
  CHECK(trained(job, start, 12, 2) != result);

  const auto trainer = trainer_for(job);
  RecordingMonitor monitor;
  trainer->train(start, {1, 3, 0}, monitor);
  CHECK(trainer->train(start, {1, 12, 0}, monitor) == result);
}

TEST_CASE("One full-batch step on unequal partitions averages to the step on the pooled examples") {
  const Examples pooled = many_labelled({9, 4}, 3);
  const StateDict start = initial_weights(mlp_job({4, 5, 3}, nullptr).model, 11);
  const StateDict whole = trained(mlp_job({4, 5, 3}, &pooled), start, 1);

  const auto inputs = f32_elements(pooled.x);
  const auto labels = i64_elements(pooled.y);
  const std::vector<std::ptrdiff_t> ends{0, 1, 3, 9};
  std::vector<StateDict> updates;
  for (std::size_t worker = 0; worker < 3; ++worker) {
    const auto first = ends[worker];
    const auto end = ends[worker + 1];
    const Examples part = labelled({static_cast<std::uint64_t>(end - first), 4},
                                   {inputs.begin() + first * 4, inputs.begin() + end * 4},
                                   {labels.begin() + first, labels.begin() + end});
    updates.push_back(trained(mlp_job({4, 5, 3}, &part), start, 1));
  }
  for (const auto &[name, tensor] : whole) {
    const auto expected = f32_elements(tensor);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double sum = 0;
      for (std::size_t worker = 0; worker < 3; ++worker)
        sum += static_cast<double>(ends[worker + 1] - ends[worker]) *
               static_cast<double>(f32_elements(updates[worker].at(name))[i]);
      REQUIRE(std::abs(sum / 9 - static_cast<double>(expected[i])) < 1e-6);
    }
  }
  CHECK(whole != start);
}

TEST_CASE("fault 68: more steps than the data has batches go through it again") {
  const Examples examples = many_labelled({3, 2}, 2);
  TrainerJob job = mlp_job({2, 2}, &examples);
  job.config.batch_size = 2;
  RecordingMonitor monitor;
  trainer_for(job)->train(initial_weights(job.model, 1), {1, 10, 0}, monitor);
  CHECK(monitor.steps == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(monitor.batch_examples == std::vector<std::uint64_t>(10, 2));
}

TEST_CASE("Mixed precision computes in bf16 and keeps F32 weights") {
  const Examples examples = many_labelled({64, 16}, 4);
  TrainerJob job = mlp_job({16, 32, 4}, &examples, &examples);
  job.config.batch_size = 16;
  const StateDict start = initial_weights(job.model, 5);
  const StateDict full = trained(job, start, 20);
  job.config.mixed_precision = MixedPrecision::bf16;
  const StateDict mixed = trained(job, start, 20);
  CHECK(mixed != full);
  for (const auto &[name, tensor] : full) {
    REQUIRE(mixed.at(name).dtype == Dtype::f32);
    const auto expected = f32_elements(tensor);
    const auto found = f32_elements(mixed.at(name));
    for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(std::abs(found[i] - expected[i]) < 0.02F);
  }
  CHECK(trained(job, start, 20) == mixed);
}

TEST_CASE("The activation named by the model stands between its layers") {
  const Examples examples{make_f32_tensor({1, 1}, {1}), make_f32_tensor({1}, {0})};
  StateDict weights = linear_weights({1, 1}, {-0.5F}, {0});
  weights["layers.1.weight"] = make_f32_tensor({1, 1}, {1});
  weights["layers.1.bias"] = make_f32_tensor({1}, {1});
  const auto loss_with = [&](const char *activation) {
    TrainerJob job = mlp_job({1, 1, 1}, nullptr, &examples);
    job.model.loss = "mse";
    job.model.activation = activation;
    return trainer_for(job)->evaluate(weights, RecordingMonitor()).loss;
  };
  const auto squared = [](double value) { return value * value; };
  CHECK(loss_with("relu") == Approx(1.0));
  CHECK(loss_with("tanh") == Approx(squared(1 + std::tanh(-0.5))));
  CHECK(loss_with("sigmoid") == Approx(squared(1 + 1 / (1 + std::exp(0.5)))));
  CHECK(loss_with("gelu") == Approx(squared(1 - 0.25 * (1 + std::erf(-0.5 / std::sqrt(2.0))))));
}

TEST_CASE("Inputs of dtype U8 are scaled to [0, 1]") {
  Examples bytes = labelled({3, 2}, {0, 51, 102, 153, 204, 255}, {0, 1, 1});
  const Examples scaled = labelled({3, 2}, {0, 0.2F, 0.4F, 0.6F, 0.8F, 1}, {0, 1, 1});
  bytes.x = {Dtype::u8, {3, 2}, {}};
  for (const int value : {0, 51, 102, 153, 204, 255}) bytes.x.data.push_back(static_cast<std::byte>(value));
  const StateDict start = initial_weights(mlp_job({2, 2}, nullptr).model, 2);
  CHECK(trained(mlp_job({2, 2}, &bytes), start, 3) == trained(mlp_job({2, 2}, &scaled), start, 3));
  CHECK(trainer_for(mlp_job({2, 2}, nullptr, &bytes))->evaluate(start, RecordingMonitor()) ==
        trainer_for(mlp_job({2, 2}, nullptr, &scaled))->evaluate(start, RecordingMonitor()));
}

TEST_CASE("An evaluation is the mean over the whole validation set, with the share of right classes") {
  const Examples examples = many_labelled({2500, 3}, 4);
  const auto trainer = trainer_for(mlp_job({3, 4}, nullptr, &examples));
  const Evaluation even =
      trainer->evaluate(linear_weights({4, 3}, std::vector<float>(12, 0), {0, 0, 0, 0}), RecordingMonitor());
  CHECK(even.loss == Approx(std::log(4.0)));
  CHECK(even.num_examples == 2500);
  const Evaluation second =
      trainer->evaluate(linear_weights({4, 3}, std::vector<float>(12, 0), {0, 9, 0, 0}), RecordingMonitor());
  REQUIRE(second.accuracy.has_value());
  CHECK(*second.accuracy == Approx(0.25));
  const double right = -std::log(std::exp(9.0) / (std::exp(9.0) + 3));
  CHECK(second.loss == Approx(0.25 * right + 0.75 * (right + 9)));
}

TEST_CASE("A target without the output's last dimension of 1 is the same target") {
  const auto loss_of = [](std::vector<std::uint64_t> target_shape) {
    const Examples examples{make_f32_tensor({2, 1}, {1, 2}),
                            make_f32_tensor(std::move(target_shape), {0, 3})};
    TrainerJob job = mlp_job({1, 1}, nullptr, &examples);
    job.model.loss = "mse";
    const Evaluation result =
        trainer_for(job)->evaluate(linear_weights({1, 1}, {2}, {0}), RecordingMonitor());
    CHECK_FALSE(result.accuracy.has_value());
    return result.loss;
  };
  CHECK(loss_of({2}) == Approx((4.0 + 1.0) / 2));
  CHECK(loss_of({2, 1}) == Approx((4.0 + 1.0) / 2));
  CHECK_THROWS_AS(loss_of({1, 2}), Error);
}

TEST_CASE("A loss that is not a number is told, and does not end the training") {
  const Examples examples = labelled({2, 1}, {std::numeric_limits<float>::infinity(), 1}, {0, 1});
  TrainerJob job = mlp_job({1, 2}, &examples, &examples);
  RecordingMonitor monitor;
  const auto trainer = trainer_for(job);
  const StateDict start = initial_weights(job.model, 1);
  const StateDict result = trainer->train(start, {1, 3, 0}, monitor);
  CHECK(monitor.losses.size() == 3);
  CHECK(std::isnan(monitor.losses[2]));
  CHECK(std::isnan(f32_elements(result.at("layers.0.weight"))[0]));
  CHECK(std::isnan(trainer->evaluate(result, RecordingMonitor()).loss));
}

TEST_CASE("Training stops before the next step when the round is over for this worker") {
  const Examples examples = many_labelled({10, 2}, 2);
  const TrainerJob job = mlp_job({2, 2}, &examples);
  RecordingMonitor monitor;
  monitor.steps_until_cancelled = 2;
  const auto trainer = trainer_for(job);
  ErrorCode code{};
  error_of([&] { trainer->train(initial_weights(job.model, 1), {1, 1000, 0}, monitor); }, code);
  CHECK(code == ErrorCode::cancelled);
  CHECK(monitor.steps.size() == 2);
  // The trainer goes on with the next task.
  RecordingMonitor next;
  CHECK(trainer->train(initial_weights(job.model, 1), {2, 3, 1000}, next).size() == 2);
}
