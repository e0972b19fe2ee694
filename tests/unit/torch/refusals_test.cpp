// What a trainer refuses before any round, and the sentence that says why.
#include "support/catch.hpp"
#include "training_support.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

std::string refusal(const TrainerJob &job, ErrorCode expected = ErrorCode::invalid_argument) {
  ErrorCode code{};
  const std::string message = error_of([&] { trainer_for(job); }, code);
  CHECK(code == expected);
  return message;
}

}  // namespace

TEST_CASE("A label that the model has no class for is refused before training") {
  const Examples examples = labelled({2, 1}, {1, 2}, {0, 3});
  CHECK(refusal(mlp_job({1, 3}, &examples)) ==
        "The training examples have the label 3, but the model's output has 3 classes, 0 to 2.");
  CHECK(contains(refusal(mlp_job({1, 3}, nullptr, &examples)), "The validation examples have the label 3"));
  const Examples negative = labelled({2, 1}, {1, 2}, {0, -100});
  CHECK(contains(refusal(mlp_job({1, 3}, &negative)), "label -100"));
}

TEST_CASE("Targets that the loss cannot use are refused, with what it needs") {
  const Examples labels = labelled({2, 1}, {1, 2}, {0, 1});
  TrainerJob regression = mlp_job({1, 1}, &labels);
  regression.model.loss = "mse";
  CHECK(contains(refusal(regression), "I64 [2]; the loss mse needs F32"));
  const Examples numbers{make_f32_tensor({2, 1}, {1, 2}), make_f32_tensor({2}, {1, 2})};
  CHECK(contains(refusal(mlp_job({1, 2}, &numbers)), "F32 [2]; the loss cross_entropy needs class labels"));
  const Examples fewer = labelled({2, 1}, {1, 2}, {0});
  CHECK(contains(refusal(mlp_job({1, 2}, &fewer)), "one entry for each"));
  TrainerJob unknown = mlp_job({1, 2}, &labels);
  unknown.model.loss = "hinge";
  CHECK(contains(refusal(unknown), "'hinge'"));
}

TEST_CASE("Inputs that do not fit the model are refused, with both shapes") {
  const Examples images = many_labelled({4, 2, 3}, 2);
  const std::string message = refusal(mlp_job({5, 2}, &images));
  CHECK(contains(message, "[2, 3]"));
  CHECK(contains(message, "[5, 2]"));
  const Examples tokens{i64_tensor({2, 1}, {1, 2}), i64_tensor({2}, {0, 1})};
  CHECK(contains(refusal(mlp_job({1, 2}, &tokens)), "takes F32 or U8"));
}

TEST_CASE("Models and options that this trainer does not have are refused") {
  const Examples examples = many_labelled({4, 2}, 2);
  TrainerJob custom = mlp_job({2, 2}, &examples);
  custom.model.kind = "custom";
  CHECK(contains(refusal(custom, ErrorCode::unsupported), "'custom'"));
  TrainerJob adapters = mlp_job({2, 2}, &examples);
  adapters.config.use_peft = true;
  CHECK(contains(refusal(adapters, ErrorCode::unsupported), "use_peft"));
  TrainerJob activation = mlp_job({2, 2, 2}, &examples);
  activation.model.activation = "swish";
  CHECK(contains(refusal(activation), "'swish'"));
  CHECK(contains(refusal(mlp_job({2}, &examples)), "at least an input and an output size"));
  CHECK(contains(refusal(mlp_job({2, 0, 2}, &examples)), "at least 1"));
  const Examples none = many_labelled({0, 2}, 2);
  CHECK(contains(refusal(mlp_job({2, 2}, &none)), "no examples"));
}

TEST_CASE("Weights whose names, shapes or types differ from the model's are refused as a whole") {
  const Examples examples = many_labelled({4, 2}, 2);
  const TrainerJob job = mlp_job({2, 3, 2}, &examples, &examples);
  const auto trainer = trainer_for(job);
  const StateDict good = initial_weights(job.model, 1);
  const auto refused = [&](const StateDict &weights) {
    ErrorCode code{};
    const std::string message = error_of([&] { trainer->evaluate(weights, RecordingMonitor()); }, code);
    CHECK(code == ErrorCode::invalid_argument);
    return message;
  };
  StateDict renamed = good;
  auto node = renamed.extract("layers.1.bias");
  node.key() = "layers.1.0.bias";
  renamed.insert(std::move(node));
  const std::string names = refused(renamed);
  CHECK(contains(names, "missing: 'layers.1.bias'"));
  CHECK(contains(names, "unexpected: 'layers.1.0.bias'"));

  StateDict reshaped = good;
  reshaped["layers.0.weight"] = make_f32_tensor({2, 3}, std::vector<float>(6, 0));
  const std::string shapes = refused(reshaped);
  CHECK(contains(shapes, "F32 [3, 2] in the model"));
  CHECK(contains(shapes, "F32 [2, 3] in the weights"));

  StateDict short_data = good;
  short_data["layers.0.bias"].data.pop_back();
  CHECK(contains(refused(short_data), "'layers.0.bias' has 11 bytes"));
  CHECK(trainer->evaluate(good, RecordingMonitor()).num_examples == 4);
}

TEST_CASE("A task for which there are no examples is refused") {
  const Examples examples = many_labelled({4, 2}, 2);
  RecordingMonitor monitor;
  const TrainerJob evaluation_only = mlp_job({2, 2}, nullptr, &examples);
  const StateDict weights = initial_weights(evaluation_only.model, 1);
  CHECK_THROWS_AS(trainer_for(evaluation_only)->train(weights, {1, 1, 0}, monitor), Error);
  CHECK_THROWS_AS(trainer_for(mlp_job({2, 2}, &examples))->evaluate(weights, RecordingMonitor()), Error);
}

TEST_CASE("A device that is not there is refused when the factory is made") {
  ErrorCode code{};
  const std::string message = error_of([] { make_torch_trainer_factory({"cuda:99", {}}); }, code);
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(message, "'cuda:99'"));
  for (const char *name : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "CPU", ""}) {
    error_of([&] { make_torch_trainer_factory({name, {}}); }, code);
    CHECK(code == ErrorCode::invalid_argument);
  }
  const auto capabilities = make_torch_trainer_factory({})->capabilities();
  CHECK(capabilities.model_kinds == std::vector<std::string>{"mlp", "torchscript"});
  CHECK(capabilities.bf16);
  CHECK_FALSE(capabilities.lora);
  CHECK(capabilities.device == "cpu");
}
