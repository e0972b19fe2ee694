// A host that embeds parsyn: a coordinator, three workers and a trainer of the host's own, in one process.
//
// The host brings a model and its mathematics (linear_trainer.hpp); parsyn divides the data, moves the
// weights, averages them and runs the rounds. A worker in another process differs in one line:
// make_http_transport (http.hpp).
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/run_example.hpp"
#include "embed/linear_trainer.hpp"
#include "parsyn/parsyn.hpp"

namespace {

const std::vector<float> kTrueWeights{2.0F, -1.0F, 0.5F};
constexpr float kTrueBias = 3.0F;
constexpr double kTolerance = 0.05;

/// `count` examples of the true model, with noise: x is F32 [count, 3], y is F32 [count].
parsyn::Examples measure(std::uint64_t count, std::mt19937 &random) {
  // Uniform in [-1.7, 1.7]: mean 0, variance about 1.
  const auto draw = [&] { return 3.4F * static_cast<float>(random()) / 4294967295.0F - 1.7F; };
  std::vector<float> x(count * kTrueWeights.size());
  std::vector<float> y(count, kTrueBias);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = draw();
    y[i / kTrueWeights.size()] += kTrueWeights[i % kTrueWeights.size()] * x[i];
  }
  for (float &value : y) value += 0.1F * draw();
  return {parsyn::make_f32_tensor({count, kTrueWeights.size()}, x), parsyn::make_f32_tensor({count}, y)};
}

int run() {
  parsyn::CoordinatorOptions options;
  // In memory. What is to outlive the process needs both: make_file_store and make_sqlite_journal.
  options.store = parsyn::make_memory_store();
  const auto coordinator = parsyn::make_coordinator(options);

  std::mt19937 random(7);
  parsyn::ModelSpec model;
  model.name = "linear";
  model.description.kind = "custom";
  const parsyn::StateDict zeros{{"w", parsyn::make_f32_tensor({3}, {0, 0, 0})},
                                {"b", parsyn::make_f32_tensor({1}, {0})}};

  parsyn::JobConfig job;
  job.name = "learn a line";
  const parsyn::Examples training = measure(1200, random);
  job.dataset_id = coordinator->add_dataset("measurements", training, measure(300, random)).id;
  job.model_id = coordinator->add_model(model, zeros).id;
  job.seed = 7;
  job.config.batch_size = 20;
  job.config.learning_rate = 0.05;
  job.distributed.emplace();
  job.distributed->num_rounds = 8;
  job.distributed->steps_per_round = 20;
  job.distributed->min_workers = job.distributed->max_workers = 3;

  // Declared after the coordinator, so that they stop before it.
  std::vector<std::unique_ptr<parsyn::Worker>> workers;
  for (const char *name : {"ada", "ben", "cem"}) {
    const parsyn::WorkerCredentials credentials = coordinator->add_worker({.name = name});
    parsyn::WorkerOptions worker;
    worker.transport = parsyn::make_in_process_transport(coordinator->worker_service(), credentials.token);
    worker.trainer_factory = std::make_shared<embed::LinearTrainerFactory>();
    workers.push_back(std::make_unique<parsyn::Worker>(std::move(worker)));
  }

  const parsyn::Id id = coordinator->submit(job).id;
  const parsyn::JobStatus status = coordinator->wait(id, std::chrono::minutes(1));
  for (const parsyn::RoundRecord &round : status.rounds) {
    std::printf("round %u: %zu workers, training loss %.4f, validation loss %.4f\n", round.round,
                round.contributions.size(), round.train_loss.value_or(NAN),
                round.validation ? round.validation->loss : NAN);
  }
  std::printf("job %s: %s\n", std::string(parsyn::job_state_name(status.state)).c_str(),
              status.reason.c_str());
  if (status.state != parsyn::JobState::completed) return 1;

  const parsyn::ObjectInfo object = coordinator->job_model(id);
  const embed::LinearModel learnt(parsyn::read_safetensors(*coordinator->store().open(object.key)));
  bool right = std::abs(learnt.b[0] - kTrueBias) < kTolerance;
  std::printf("bias: true %.2f, learnt %.4f\n", kTrueBias, learnt.b[0]);
  for (std::size_t i = 0; i < kTrueWeights.size(); ++i) {
    right = right && std::abs(learnt.w[i] - kTrueWeights[i]) < kTolerance;
    std::printf("weight %zu: true %.2f, learnt %.4f\n", i, kTrueWeights[i], learnt.w[i]);
  }
  return right ? 0 : 1;
}

}  // namespace

int main() { return run_example("embed", run); }
