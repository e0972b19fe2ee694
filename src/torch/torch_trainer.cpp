#include "torch/torch_trainer.hpp"

#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/random.hpp"
#include "torch/device.hpp"
#include "torch/errors.hpp"

namespace parsyn::torch {

namespace {

constexpr std::string_view kTrainingTask = "Training the model failed";
constexpr std::string_view kEvaluationTask = "Evaluating the model failed";
constexpr std::uint64_t kEvaluationChunk = 1000;
/// Keeps a model's own draws apart from other streams that are derived from a job's seed: "torch" in ASCII.
constexpr std::uint64_t kTorchStream = 0x746f726368;

std::unique_ptr<::torch::optim::Optimizer> make_optimizer(const TrainingConfig &config,
                                                          std::vector<at::Tensor> parameters) {
  if (config.optimizer == Optimizer::adamw) {
    auto options = ::torch::optim::AdamWOptions(config.learning_rate).weight_decay(config.weight_decay);
    return std::make_unique<::torch::optim::AdamW>(std::move(parameters), options);
  }
  auto options = ::torch::optim::SGDOptions(config.learning_rate)
                     .momentum(config.momentum)
                     .weight_decay(config.weight_decay);
  return std::make_unique<::torch::optim::SGD>(std::move(parameters), options);
}

/// Dropped rather than set to zero: the next backward pass then writes gradients instead of adding to them.
void drop_gradients(const std::vector<at::Tensor> &parameters) {
  for (const at::Tensor &parameter : parameters) parameter.mutable_grad() = at::Tensor();
}

/// Scales all gradients alike so that their common 2-norm is at most `norm_max`. One that is not finite stays
/// as it is and shows in the loss.
void clip_gradients(const std::vector<at::Tensor> &parameters, double norm_max) {
  double squares = 0;
  for (const at::Tensor &parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const auto norm = parameter.grad().norm().item<double>();
    squares += norm * norm;
  }
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= norm_max) return;
  for (const at::Tensor &parameter : parameters)
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(norm_max / norm);
}

}  // namespace

TorchTrainer::TorchTrainer(TrainerParts parts)
    : job_(std::move(parts.job)),
      model_(std::move(parts.model)),
      device_(parts.device),
      log_(std::move(parts.log)),
      loss_(job_.model.loss) {
  const ComputeScope compute(compute_settings());
  if (job_.train != nullptr) {
    if (job_.train->count() == 0)
      throw Error(ErrorCode::invalid_argument,
                  "The partition has no examples, so there is nothing to train on.");
    if (job_.config.batch_size == 0)
      throw Error(ErrorCode::invalid_argument, "config.batch_size is 0; it must be at least 1.");
    if (model_->trainable().empty())
      throw Error(ErrorCode::invalid_argument,
                  "The model has no parameter that requires a gradient, so there is nothing to train.");
    check_batches(job_.train->count());
    loss_.check_targets(*job_.train, "training");
    train_ = std::make_unique<DeviceExamples>(*job_.train, device_);
    check_fit(*job_.train, "training", true);
  }
  if (job_.validation != nullptr && job_.validation->count() > 0) {
    loss_.check_targets(*job_.validation, "validation");
    validation_ = std::make_unique<DeviceExamples>(*job_.validation, device_);
    check_fit(*job_.validation, "validation", false);
  }
}

void TorchTrainer::check_batches(std::uint64_t num_examples) const {
  if (std::min<std::uint64_t>(num_examples, job_.config.batch_size) > 1 || !model_->normalises_batches())
    return;
  const std::string reason = num_examples == 1 ? "The partition has 1 example" : "config.batch_size is 1";
  throw Error(ErrorCode::invalid_argument,
              reason + "; a model with batch normalisation needs at least 2 examples per batch.");
}

void TorchTrainer::check_fit(const Examples &examples, std::string_view role, bool training) {
  const DeviceExamples &source = training ? *train_ : *validation_;
  std::uint64_t count = std::min<std::uint64_t>(source.count(), 2);
  if (training) count = std::min<std::uint64_t>(count, job_.config.batch_size);
  const std::string task = "The model cannot take the " + std::string(role) + " examples, of input shape " +
                           shape_text({examples.x.shape.begin() + 1, examples.x.shape.end()});
  with_clear_errors(ErrorCode::invalid_argument, task, [&] {
    const c10::NoGradGuard no_grad;
    std::optional<RandomScope> random;
    if (model_->draws_random_numbers()) random.emplace(random_seed(0), device_);
    model_->set_training(training);
    const at::Tensor output = model_->forward(source.slice(0, count).input);
    loss_.check_output(output.sizes(), examples, role);
  });
}

ComputeSettings TorchTrainer::compute_settings() const {
  return {static_cast<int>(job_.config.threads), device_, log_};
}

std::uint64_t TorchTrainer::random_seed(std::uint32_t round) const {
  return core::derive_seed({job_.seed, kTorchStream, job_.worker_id, round});
}

Evaluation TorchTrainer::evaluate(const StateDict &weights, const TrainMonitor &monitor) {
  if (!validation_)
    throw Error(ErrorCode::invalid_argument,
                "There are no validation examples, so nothing can be evaluated.");
  return with_clear_errors(ErrorCode::invalid_argument, kEvaluationTask, [&] {
    const CancelQuery cancelled = [&monitor] { return monitor.cancelled(); };
    const ComputeScope compute(compute_settings(), cancelled);
    std::optional<RandomScope> random;
    if (model_->draws_random_numbers()) random.emplace(random_seed(0), device_, cancelled);
    const c10::NoGradGuard no_grad;
    model_->load(weights);
    model_->set_training(false);
    double loss = 0;
    std::uint64_t right = 0;
    for (std::uint64_t first = 0; first < validation_->count(); first += kEvaluationChunk) {
      if (monitor.cancelled())
        throw Error(ErrorCode::cancelled, "The evaluation was cancelled after " + std::to_string(first) +
                                              " of " + std::to_string(validation_->count()) + " examples.");
      const Batch batch = validation_->slice(first, std::min(kEvaluationChunk, validation_->count() - first));
      const at::Tensor output = model_->forward(batch.input);
      loss += loss_.sum(output, batch.target);
      if (loss_.has_classes()) right += Loss::count_right(output, batch.target);
    }
    const auto count = static_cast<double>(validation_->count());
    Evaluation result{loss / count, std::nullopt, validation_->count()};
    if (loss_.has_classes()) result.accuracy = static_cast<double>(right) / count;
    return result;
  });
}

StateDict TorchTrainer::train(const StateDict &global, const RoundTask &task, TrainMonitor &monitor) {
  if (!train_)
    throw Error(ErrorCode::invalid_argument,
                "This worker's part is evaluation only: it has no training examples.");
  return with_clear_errors(ErrorCode::invalid_argument, kTrainingTask, [&] {
    const CancelQuery cancelled = [&monitor] { return monitor.cancelled(); };
    const ComputeScope compute(compute_settings(), cancelled);
    std::optional<RandomScope> random;
    if (model_->draws_random_numbers()) random.emplace(random_seed(task.round), device_, cancelled);
    const c10::AutoGradMode gradients(true);
    model_->load(global);
    model_->set_training(true);
    run_steps(task, monitor);
    return model_->save();
  });
}

void TorchTrainer::run_steps(const RoundTask &task, TrainMonitor &monitor) {
  const TrainingConfig &config = job_.config;
  const std::vector<at::Tensor> parameters = model_->trainable();
  const auto optimizer = make_optimizer(config, parameters);
  auto &options = optimizer->param_groups().front().options();
  BatchOrder order(train_->count(), config.batch_size, job_.seed, job_.worker_id);
  const bool bf16 = config.mixed_precision == MixedPrecision::bf16;
  drop_gradients(parameters);
  for (std::uint64_t step = 0; step < task.steps; ++step) {
    if (monitor.cancelled())
      throw Error(ErrorCode::cancelled, "Training was cancelled after " + std::to_string(step) + " of " +
                                            std::to_string(task.steps) + " steps.");
    const std::uint64_t global_step = task.first_step + step;
    const Batch &batch = train_->gather(order.batch(global_step));
    at::Tensor output;
    {
      const AutocastScope autocast(device_, bf16);
      output = model_->forward(batch.input);
    }
    const at::Tensor loss = loss_.mean(output, batch.target);
    loss.backward();
    if (config.max_grad_norm > 0) clip_gradients(parameters, config.max_grad_norm);
    options.set_lr(learning_rate_at(config, global_step, job_.total_steps));
    optimizer->step();
    drop_gradients(parameters);
    monitor.step_done(step + 1, loss.item<double>(), order.batch_examples());
  }
}

}  // namespace parsyn::torch
