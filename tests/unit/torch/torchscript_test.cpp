// Scripted modules: their state dict, and their training.
#include <cmath>
#include <fstream>

#include "scripted_modules.hpp"
#include "support/catch.hpp"
#include "training_support.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("A scripted module's state dict has its parameters and buffers, counters as integers") {
  const TemporaryFolder folder;
  write_convolution(folder / "module.pt", false);
  const StateDict state = torchscript_state_dict(folder / "module.pt");
  std::vector<std::string> names;
  for (const auto &entry : state) names.push_back(entry.first);
  CHECK(names == std::vector<std::string>{"conv.weight", "head.weight", "norm.bias",
                                          "norm.num_batches_tracked", "norm.running_mean", "norm.running_var",
                                          "norm.weight"});
  CHECK(state.at("norm.num_batches_tracked").dtype == Dtype::i64);
  CHECK(state.at("norm.num_batches_tracked").shape.empty());
  CHECK(state.at("conv.weight").shape == std::vector<std::uint64_t>{2, 3, 3, 3});
  CHECK(f32_elements(state.at("conv.weight")) == convolution_weight());
}

TEST_CASE(
    "fault 78: a channels-last weight is written in row-major order and trains to the same names and "
    "shapes") {
  const TemporaryFolder folder;
  write_convolution(folder / "rows.pt", false);
  write_convolution(folder / "channels.pt", true);
  const StateDict state = torchscript_state_dict(folder / "channels.pt");
  CHECK(state == torchscript_state_dict(folder / "rows.pt"));

  const Examples examples = many_labelled({8, 3, 4, 4}, 3);
  const StateDict rows = trained(scripted_job(folder / "rows.pt", &examples), state, 2);
  const StateDict channels = trained(scripted_job(folder / "channels.pt", &examples), state, 2);
  CHECK(specs_of(channels) == specs_of(state));
  const auto expected = f32_elements(rows.at("conv.weight"));
  const auto found = f32_elements(channels.at("conv.weight"));
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-5));
}

TEST_CASE("Training moves a module's buffers in train mode only, and evaluation leaves them") {
  const TemporaryFolder folder;
  write_convolution(folder / "module.pt", false);
  const StateDict start = torchscript_state_dict(folder / "module.pt");
  const Examples examples = many_labelled({8, 3, 4, 4}, 3);
  const auto trainer = trainer_for(scripted_job(folder / "module.pt", &examples, &examples));
  const Evaluation before = trainer->evaluate(start, RecordingMonitor());
  RecordingMonitor monitor;
  const StateDict result = trainer->train(start, {1, 5, 0}, monitor);
  CHECK(i64_elements(result.at("norm.num_batches_tracked")) == std::vector<std::int64_t>{5});
  CHECK(result.at("norm.running_mean") != start.at("norm.running_mean"));
  CHECK(trainer->evaluate(start, RecordingMonitor()) == before);
  CHECK(trainer->evaluate(result, RecordingMonitor()).loss < before.loss);
  CHECK(monitor.losses.back() < monitor.losses.front());
  CHECK(trained(scripted_job(folder / "module.pt", &examples), start, 5) == result);
}

TEST_CASE("fault 67: a partition that batch normalisation cannot train on is refused before training") {
  const TemporaryFolder folder;
  write_flat_norm(folder / "module.pt");
  const Examples one = many_labelled({1, 2}, 2);
  ErrorCode code{};
  CHECK(error_of([&] { trainer_for(scripted_job(folder / "module.pt", &one)); }, code) ==
        "The partition has 1 example; a model with batch normalisation needs at least 2 examples per batch.");
  CHECK(code == ErrorCode::invalid_argument);

  // 65 examples in batches of 64: the second batch goes on in the next epoch, so none is of one.
  const Examples many = many_labelled({65, 2}, 2);
  TrainerJob job = scripted_job(folder / "module.pt", &many, &one);
  job.config.batch_size = 64;
  RecordingMonitor monitor;
  const auto trainer = trainer_for(job);
  const StateDict start = torchscript_state_dict(folder / "module.pt");
  trainer->train(start, {1, 2, 0}, monitor);
  CHECK(monitor.batch_examples == std::vector<std::uint64_t>{64, 64});
  CHECK(std::isfinite(trainer->evaluate(start, RecordingMonitor()).loss));
  job.config.batch_size = 1;
  CHECK(contains(error_of([&] { trainer_for(job); }, code), "config.batch_size is 1"));
}

TEST_CASE("fault 79: tied weights are saved under both names and stay equal") {
  const TemporaryFolder folder;
  write_tied(folder / "module.pt");
  StateDict state = torchscript_state_dict(folder / "module.pt");
  REQUIRE(state.size() == 2);
  const StateDict start = state;
  const Examples examples = many_labelled({6, 2}, 2);
  const TrainerJob job = scripted_job(folder / "module.pt", &examples, &examples);
  for (std::uint32_t round = 1; round <= 3; ++round) {
    state = trained(job, state, 2, round);
    CHECK(state.at("first") == state.at("second"));
  }
  CHECK(state != start);

  // A step on the shared tensor is one step: -rate * (gradient through both uses), seen here by a finite
  // difference.
  const auto loss_at = [&](float change) {
    auto elements = f32_elements(start.at("first"));
    elements[0] += change;
    const Tensor moved = make_f32_tensor({2, 2}, elements);
    return trainer_for(job)->evaluate({{"first", moved}, {"second", moved}}, RecordingMonitor()).loss;
  };
  const double slope = (loss_at(0.01F) - loss_at(-0.01F)) / 0.02;
  const StateDict one_step = trained(job, start, 1);
  CHECK(f32_elements(one_step.at("first"))[0] == Approx(0.5 - 0.1 * slope).margin(1e-4));

  StateDict different = start;
  different["second"] = make_f32_tensor({2, 2}, {1, 2, 3, 4});
  ErrorCode code{};
  const std::string message = error_of([&] { trained(job, different, 1); }, code);
  CHECK(code == ErrorCode::invalid_argument);
  CHECK(contains(message, "'first' and 'second' are one tensor"));
  different.erase("second");
  CHECK(contains(error_of([&] { trained(job, different, 1); }, code), "missing: 'second'"));
}

TEST_CASE("fault 89: weights with other names than the module's are refused, with every name") {
  const TemporaryFolder folder;
  write_dropout(folder / "module.pt");
  const Examples examples = many_labelled({4, 2}, 2);
  const StateDict renamed{{"module.weight", make_f32_tensor({2, 2}, {1, 2, 3, 4})}};
  ErrorCode code{};
  const std::string message =
      error_of([&] { trained(scripted_job(folder / "module.pt", &examples), renamed, 1); }, code);
  CHECK(code == ErrorCode::invalid_argument);
  CHECK(contains(message, "missing: 'weight'"));
  CHECK(contains(message, "unexpected: 'module.weight'"));
}

TEST_CASE("Half-precision parameters become F32 masters, and frozen ones are not trained") {
  const TemporaryFolder folder;
  write_half(folder / "module.pt");
  const StateDict start = torchscript_state_dict(folder / "module.pt");
  for (const auto &entry : start) CHECK(entry.second.dtype == Dtype::f32);
  CHECK(f32_elements(start.at("scale")) == std::vector<float>{1.5F});
  const Examples examples = many_labelled({4, 2}, 2);
  const StateDict result = trained(scripted_job(folder / "module.pt", &examples), start, 3);
  CHECK(specs_of(result) == specs_of(start));
  CHECK(result.at("frozen") == start.at("frozen"));
  CHECK(result.at("weight") != start.at("weight"));
  CHECK(result.at("scale") != start.at("scale"));
}

TEST_CASE(
    "fault 57: a module's random draws are seeded by job, worker and round, and the host's generator is put "
    "back") {
  const TemporaryFolder folder;
  write_dropout(folder / "module.pt");
  const Examples examples = many_labelled({16, 2}, 2);
  TrainerJob job = scripted_job(folder / "module.pt", &examples, &examples);
  const StateDict start = torchscript_state_dict(folder / "module.pt");
  seed_host_generator(5);
  const double expected = draw_from_host_generator();
  seed_host_generator(5);
  const StateDict result = trained(job, start, 3);
  CHECK(draw_from_host_generator() == expected);
  CHECK(trained(job, start, 3) == result);
  // Full batches: only the draws differ between rounds, and between workers.
  CHECK(trained(job, start, 3, 2) != result);
  // Evaluation drops nothing.
  const Evaluation evaluation = trainer_for(job)->evaluate(start, RecordingMonitor());
  CHECK(trainer_for(job)->evaluate(start, RecordingMonitor()) == evaluation);
}

TEST_CASE("Inputs of dtype I64 reach the module as they are") {
  const TemporaryFolder folder;
  write_embedding(folder / "module.pt");
  const Examples tokens{i64_tensor({3, 3}, {0, 1, 2, 3, 4, 0, 1, 1, 1}), i64_tensor({3}, {0, 1, 0})};
  const StateDict start = torchscript_state_dict(folder / "module.pt");
  CHECK(trained(scripted_job(folder / "module.pt", &tokens), start, 2) != start);
}

TEST_CASE("Mixed precision trains a scripted module with convolution and batch normalisation") {
  const TemporaryFolder folder;
  write_convolution(folder / "module.pt", false);
  const StateDict start = torchscript_state_dict(folder / "module.pt");
  const Examples examples = many_labelled({8, 3, 4, 4}, 3);
  TrainerJob job = scripted_job(folder / "module.pt", &examples);
  const StateDict full = trained(job, start, 3);
  job.config.mixed_precision = MixedPrecision::bf16;
  const StateDict mixed = trained(job, start, 3);
  CHECK(specs_of(mixed) == specs_of(start));
  CHECK(mixed != full);
  const auto expected = f32_elements(full.at("head.weight"));
  const auto found = f32_elements(mixed.at("head.weight"));
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(0.02));
}

TEST_CASE("A module that fails on the examples is refused with one sentence, without its source") {
  const TemporaryFolder folder;
  write_dropout(folder / "module.pt");
  const Examples wider = many_labelled({4, 5}, 2);
  ErrorCode code{};
  const std::string message =
      error_of([&] { trainer_for(scripted_job(folder / "module.pt", &wider)); }, code);
  CHECK(code == ErrorCode::invalid_argument);
  CHECK(contains(message, "input shape [5]"));
  CHECK(contains(message, "shapes cannot be multiplied"));
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("A file that is not there, or is no scripted module, or runs code when loaded, is refused") {
  const TemporaryFolder folder;
  ErrorCode code{};
  error_of([&] { torchscript_state_dict(folder / "none.pt"); }, code);
  CHECK(code == ErrorCode::not_found);
  std::ofstream(folder / "text.pt") << "no module";
  const std::string message = error_of([&] { torchscript_state_dict(folder / "text.pt"); }, code);
  CHECK(code == ErrorCode::corrupt_data);
  CHECK(message.find('\n') == std::string::npos);
  write_load_hook(folder / "hook.pt");
  CHECK(contains(error_of([&] { torchscript_state_dict(folder / "hook.pt"); }, code), "__setstate__"));
  CHECK(code == ErrorCode::unsupported);
}
