// With one full-batch step of gradient descent per round, federated averaging is gradient descent on the
// pooled data: the example-weighted mean of the workers' steps is the step of the whole (McMahan et al. 2017,
// arXiv 1602.05629). So a wrong weight, a lost update or a stale model shows in the last digits of a model
// that is checked by hand.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parsyn/parsyn.hpp"
#include "support/catch.hpp"
#include "support/loopback_serving.hpp"

using namespace parsyn;

namespace {

constexpr std::uint64_t kInputs = 4;
constexpr std::uint64_t kClasses = 3;
constexpr double kRate = 0.5;
constexpr std::uint32_t kRounds = 6;
constexpr double kTolerance = 1e-6;
const std::vector<std::uint64_t> kUnequalCounts{1, 37, 600};
const std::string kDataName = "hospital";

/// Numbers in [-1, 1) that depend on their position only.
class Numbers {
 public:
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<double>(state_ >> 40) * 0x1.0p-23 - 1.0);
  }

 private:
  std::uint64_t state_ = 2026;
};

/// `count` labelled examples; each worker's own lie around another centre, so that their models differ.
Examples make_examples(std::uint64_t count, float centre, Numbers &numbers) {
  std::vector<float> x;
  Tensor y{Dtype::i64, {count}, std::vector<std::byte>(count * sizeof(std::int64_t))};
  for (std::uint64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::uint64_t j = 0; j < kInputs; ++j) {
      x.push_back(centre + numbers.next());
      sum += x.back();
    }
    const std::int64_t label = sum < -0.5F ? 0 : sum < 0.8F ? 1 : 2;
    const auto *bytes = reinterpret_cast<const std::byte *>(&label);
    std::copy_n(bytes, sizeof label, y.data.begin() + static_cast<std::ptrdiff_t>(i * sizeof label));
  }
  return {make_f32_tensor({count, kInputs}, x), std::move(y)};
}

std::vector<Examples> make_parts() {
  Numbers numbers;
  std::vector<Examples> parts;
  float centre = -0.9F;
  for (const std::uint64_t count : kUnequalCounts) {
    parts.push_back(make_examples(count, centre, numbers));
    centre += 0.7F;
  }
  return parts;
}

StateDict zeros() {
  return {{"weight", make_f32_tensor({kClasses, kInputs}, std::vector<float>(kClasses * kInputs))},
          {"bias", make_f32_tensor({kClasses}, std::vector<float>(kClasses))}};
}

/// Gradient of softmax regression's mean loss over some examples: [classes][inputs], then [classes].
std::vector<double> mean_gradient(const StateDict &weights, const Examples &examples,
                                  const std::vector<std::uint64_t> &indices) {
  const std::vector<float> weight = f32_elements(weights.at("weight"));
  const std::vector<float> bias = f32_elements(weights.at("bias"));
  const std::vector<float> x = f32_elements(examples.x);
  const std::vector<std::int64_t> labels = class_labels(examples);
  std::vector<double> gradient(kClasses * kInputs + kClasses);
  for (const std::uint64_t i : indices) {
    std::vector<double> odds(kClasses);
    double total = 0;
    for (std::size_t k = 0; k < kClasses; ++k) {
      double logit = bias[k];
      for (std::size_t j = 0; j < kInputs; ++j) logit += double{weight[k * kInputs + j]} * x[i * kInputs + j];
      total += odds[k] = std::exp(logit);
    }
    for (std::size_t k = 0; k < kClasses; ++k) {
      const double error = odds[k] / total - (labels[i] == static_cast<std::int64_t>(k) ? 1 : 0);
      for (std::size_t j = 0; j < kInputs; ++j) gradient[k * kInputs + j] += error * x[i * kInputs + j];
      gradient[kClasses * kInputs + k] += error;
    }
  }
  for (double &value : gradient) value /= static_cast<double>(indices.size());
  return gradient;
}

StateDict descended(const StateDict &weights, const std::vector<double> &gradient) {
  std::vector<float> weight = f32_elements(weights.at("weight"));
  std::vector<float> bias = f32_elements(weights.at("bias"));
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= static_cast<float>(kRate * gradient[i]);
  for (std::size_t k = 0; k < bias.size(); ++k)
    bias[k] -= static_cast<float>(kRate * gradient[weight.size() + k]);
  return {{"weight", make_f32_tensor({kClasses, kInputs}, weight)},
          {"bias", make_f32_tensor({kClasses}, bias)}};
}

class SoftmaxTrainer final : public Trainer {
 public:
  explicit SoftmaxTrainer(const TrainerJob &job) : job_(job) {}
  Evaluation evaluate(const StateDict &, const TrainMonitor &) override {
    throw Error(ErrorCode::internal, "this dataset has no validation examples");
  }
  StateDict train(const StateDict &global, const RoundTask &task, TrainMonitor &monitor) override {
    StateDict weights = global;
    BatchOrder order(job_.train->count(), job_.config.batch_size, job_.seed, job_.worker_id);
    for (std::uint64_t step = 0; step < task.steps; ++step) {
      const auto &batch = order.batch(task.first_step + step);
      weights = descended(weights, mean_gradient(weights, *job_.train, batch));
      monitor.step_done(step + 1, 0, batch.size());
    }
    return weights;
  }

 private:
  const TrainerJob &job_;
};

class SoftmaxTrainerFactory final : public TrainerFactory {
 public:
  TrainerCapabilities capabilities() const override {
    TrainerCapabilities capabilities;
    capabilities.model_kinds = {"custom"};
    return capabilities;
  }
  std::unique_ptr<Trainer> make_trainer(const TrainerJob &job) override {
    return std::make_unique<SoftmaxTrainer>(job);
  }
};

/// Gradient descent on all examples at once, where each part counts by its share.
StateDict centralised(const std::vector<Examples> &parts, const std::vector<double> &shares) {
  StateDict weights = zeros();
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    std::vector<double> gradient(kClasses * kInputs + kClasses);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::vector<std::uint64_t> all(parts[part].count());
      for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = i;
      const std::vector<double> own = mean_gradient(weights, parts[part], all);
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += shares[part] * own[i];
    }
    weights = descended(weights, gradient);
  }
  return weights;
}

StateDict pooled(const std::vector<Examples> &parts) {
  double total = 0;
  for (const Examples &part : parts) total += static_cast<double>(part.count());
  std::vector<double> shares;
  for (const Examples &part : parts) shares.push_back(static_cast<double>(part.count()) / total);
  return centralised(parts, shares);
}

double greatest_difference(const StateDict &a, const StateDict &b) {
  double greatest = 0;
  for (const auto &[name, tensor] : a) {
    const std::vector<float> left = f32_elements(tensor);
    const std::vector<float> right = f32_elements(b.at(name));
    for (std::size_t i = 0; i < left.size(); ++i) {
      greatest = std::max(greatest, std::abs(double{left[i]} - double{right[i]}));
    }
  }
  return greatest;
}

enum class Through { http, memory };

struct Trained {
  JobStatus status;
  std::string sha256;
  StateDict weights;
};

/// A real coordinator and real workers, each with data of its own, for kRounds rounds of one full-batch step.
Trained federated(const std::vector<Examples> &parts, Through through) {
  CoordinatorOptions options;
  options.store = make_memory_store();
  const auto coordinator = make_coordinator(options);
  CoordinatorServer server(*coordinator, test::loopback_serving());

  DatasetSpec data;
  data.name = kDataName;
  data.local = true;
  ModelSpec model;
  model.name = "softmax";
  model.description.kind = "custom";
  JobConfig job;
  job.name = "identity";
  job.dataset_id = coordinator->add_dataset(data).id;
  job.model_id = coordinator->add_model(model, zeros()).id;
  job.seed = 11;
  job.config.learning_rate = kRate;
  job.config.batch_size = 1'000;  // more than any worker has: each step takes all of its examples
  job.distributed.emplace();
  job.distributed->num_rounds = kRounds;
  job.distributed->steps_per_round = 1;
  job.distributed->min_workers = job.distributed->max_workers = static_cast<std::uint32_t>(parts.size());

  std::vector<std::unique_ptr<Worker>> workers;
  for (const Examples &part : parts) {
    const WorkerCredentials credentials = coordinator->add_worker({.name = "worker"});
    WorkerOptions worker;
    if (through == Through::http) {
      HttpTransportOptions http;
      http.url = server.url();
      http.token = credentials.token;
      worker.transport = make_http_transport(http);
    } else {
      worker.transport = make_in_process_transport(coordinator->worker_service(), credentials.token);
    }
    worker.trainer_factory = std::make_shared<SoftmaxTrainerFactory>();
    worker.local_data[kDataName] = std::make_shared<const Examples>(part);
    workers.push_back(std::make_unique<Worker>(std::move(worker)));
  }

  const Id id = coordinator->submit(job).id;
  Trained trained;
  trained.status = coordinator->wait(id, std::chrono::seconds(60));
  INFO(trained.status.reason);
  REQUIRE(trained.status.state == JobState::completed);
  const ObjectInfo object = coordinator->job_model(id);
  trained.sha256 = object.sha256;
  trained.weights = read_safetensors(*coordinator->store().open(object.key));
  return trained;
}

}  // namespace

TEST_CASE(
    "FedAvg with one full-batch step is gradient descent on the pooled data, with 1, 37 and 600 examples "
    "over HTTP") {
  const std::vector<Examples> parts = make_parts();
  const Trained trained = federated(parts, Through::http);
  REQUIRE(trained.status.rounds.size() == kRounds);
  for (const RoundRecord &round : trained.status.rounds) {
    CHECK(round.examples == 638);
    REQUIRE(round.contributions.size() == parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      CHECK(round.contributions[i].num_examples == kUnequalCounts[i]);
  }
  CHECK(greatest_difference(trained.weights, pooled(parts)) < kTolerance);
  // What the tolerance must tell apart: an average that does not ask how many examples an update stands for.
  CHECK(greatest_difference(trained.weights, centralised(parts, {1.0 / 3, 1.0 / 3, 1.0 / 3})) > 0.01);
}

TEST_CASE("The in-process transport and HTTP give the same bytes") {
  const std::vector<Examples> parts = make_parts();
  const Trained over_http = federated(parts, Through::http);
  const Trained in_memory = federated(parts, Through::memory);
  CHECK(over_http.sha256 == in_memory.sha256);
  CHECK(over_http.weights == in_memory.weights);
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    CHECK(over_http.status.rounds[i].model_sha256 == in_memory.status.rounds[i].model_sha256);
  }
}
