#include "simulate/softmax_regression.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "parsyn/error.hpp"

namespace simulate {
namespace {

struct Parameters {
  explicit Parameters(const parsyn::StateDict &state)
      : weight(parsyn::f32_elements(state.at("weight"))), bias(parsyn::f32_elements(state.at("bias"))) {}

  parsyn::StateDict state() const {
    const std::uint64_t classes = bias.size();
    return {{"weight", parsyn::make_f32_tensor({classes, weight.size() / classes}, weight)},
            {"bias", parsyn::make_f32_tensor({classes}, bias)}};
  }

  std::vector<float> weight;  // [classes][inputs]
  std::vector<float> bias;
};

class SoftmaxRegression final : public parsyn::Trainer {
 public:
  explicit SoftmaxRegression(const parsyn::TrainerJob &job) : job_(job) {
    if (job.train != nullptr) labels_ = parsyn::class_labels(*job.train);
    if (job.validation != nullptr) validation_labels_ = parsyn::class_labels(*job.validation);
  }

  parsyn::Evaluation evaluate(const parsyn::StateDict &weights,
                              const parsyn::TrainMonitor &monitor) override {
    const Parameters parameters(weights);
    double loss = 0;
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < validation_labels_.size() && !monitor.cancelled(); ++i) {
      load(*job_.validation, i);
      predict(parameters);
      const auto label = static_cast<std::size_t>(validation_labels_[i]);
      loss -= std::log(probabilities_[label]);
      if (std::ranges::max_element(probabilities_) - probabilities_.begin() == validation_labels_[i]) ++right;
    }
    const auto count = static_cast<double>(validation_labels_.size());
    return {loss / count, static_cast<double>(right) / count, validation_labels_.size()};
  }

  parsyn::StateDict train(const parsyn::StateDict &global, const parsyn::RoundTask &task,
                          parsyn::TrainMonitor &monitor) override {
    Parameters parameters(global);
    parsyn::BatchOrder order(labels_.size(), job_.config.batch_size, job_.seed, job_.worker_id);
    for (std::uint64_t step = 0; step < task.steps && !monitor.cancelled(); ++step) {
      const std::uint64_t job_step = task.first_step + step;
      const double rate = parsyn::learning_rate_at(job_.config, job_step, job_.total_steps);
      const double loss = descend(order.batch(job_step), rate, parameters);
      monitor.step_done(step + 1, loss, order.batch_examples());
    }
    return parameters.state();
  }

 private:
  /// One step on a batch; the loss before it.
  double descend(const std::vector<std::uint64_t> &batch, double rate, Parameters &parameters) {
    const Parameters before = parameters;
    const auto scale = static_cast<float>(rate / static_cast<double>(batch.size()));
    double loss = 0;
    for (const std::uint64_t i : batch) {
      load(*job_.train, i);
      predict(before);
      const auto label = static_cast<std::size_t>(labels_[i]);
      loss -= std::log(probabilities_[label]);
      for (std::size_t k = 0; k < before.bias.size(); ++k) {
        const float error = scale * (static_cast<float>(probabilities_[k]) - (k == label ? 1.0F : 0.0F));
        parameters.bias[k] -= error;
        float *row = &parameters.weight[k * inputs_.size()];
        for (std::size_t j = 0; j < inputs_.size(); ++j) row[j] -= error * inputs_[j];
      }
    }
    return loss / static_cast<double>(batch.size());
  }

  void load(const parsyn::Examples &examples, std::uint64_t index) {
    const std::size_t size = examples.x.data.size() / examples.count();
    inputs_.resize(size);
    const std::span pixels = std::span(examples.x.data).subspan(index * size, size);
    for (std::size_t j = 0; j < size; ++j)
      inputs_[j] = static_cast<float>(std::to_integer<int>(pixels[j])) / 255.0F;
  }

  void predict(const Parameters &parameters) {
    probabilities_.assign(parameters.bias.begin(), parameters.bias.end());
    for (std::size_t k = 0; k < probabilities_.size(); ++k) {
      const float *row = &parameters.weight[k * inputs_.size()];
      float sum = 0;
      for (std::size_t j = 0; j < inputs_.size(); ++j) sum += row[j] * inputs_[j];
      probabilities_[k] += sum;
    }
    const double highest = *std::ranges::max_element(probabilities_);  // keeps exp() in range
    double total = 0;
    for (double &value : probabilities_) total += value = std::exp(value - highest);
    for (double &value : probabilities_) value /= total;
  }

  const parsyn::TrainerJob &job_;  // outlives its trainer
  std::vector<std::int64_t> labels_;
  std::vector<std::int64_t> validation_labels_;
  std::vector<float> inputs_;          // of the example at hand
  std::vector<double> probabilities_;  // of its classes
};

}  // namespace

parsyn::StateDict softmax_regression_zeros(std::uint64_t inputs, std::uint64_t classes) {
  return {{"weight", parsyn::make_f32_tensor({classes, inputs}, std::vector<float>(classes * inputs))},
          {"bias", parsyn::make_f32_tensor({classes}, std::vector<float>(classes))}};
}

parsyn::TrainerCapabilities SoftmaxRegressionFactory::capabilities() const {
  parsyn::TrainerCapabilities capabilities;
  capabilities.model_kinds = {"custom"};
  return capabilities;
}

std::unique_ptr<parsyn::Trainer> SoftmaxRegressionFactory::make_trainer(const parsyn::TrainerJob &job) {
  for (const parsyn::Examples *examples : {job.train, job.validation}) {
    if (examples != nullptr && examples->x.dtype != parsyn::Dtype::u8) {
      throw parsyn::Error(parsyn::ErrorCode::invalid_argument,
                          "softmax regression takes inputs of bytes (U8), as images files have them");
    }
  }
  return std::make_unique<SoftmaxRegression>(job);
}

}  // namespace simulate
