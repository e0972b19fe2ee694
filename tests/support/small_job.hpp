// A coordinator in memory with one tiny dataset and one tiny model, for tests that look at rounds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parsyn/coordinator.hpp"
#include "parsyn/safetensors.hpp"
#include "support/manual_worker.hpp"

namespace parsyn::test {

/// One F32 tensor "w" with every element `value`.
inline StateDict constant(float value, std::uint64_t elements = 8) {
  StateDict state;
  state["w"] = make_f32_tensor({elements}, std::vector<float>(elements, value));
  return state;
}

inline Examples few_examples(std::uint64_t count) {
  Examples examples;
  examples.x = make_f32_tensor({count, 1}, std::vector<float>(count, 1.0F));
  examples.y = make_f32_tensor({count}, std::vector<float>(count, 1.0F));
  return examples;
}

class SmallJob {
 public:
  using MakeCoordinator = std::function<std::unique_ptr<Coordinator>(const CoordinatorOptions &)>;

  explicit SmallJob(
      const StateDict &initial = constant(0), std::uint64_t examples = 12, CoordinatorOptions options = {},
      const MakeCoordinator &make = [](const auto &with) { return make_coordinator(with); }) {
    options.store = options.store ? options.store : make_memory_store();
    options.join_window = std::chrono::milliseconds(0);
    coordinator = make(options);
    dataset = coordinator->add_dataset("small", few_examples(examples), std::nullopt).id;
    ModelSpec spec;
    spec.name = "small";
    spec.description.kind = "custom";
    model = coordinator->add_model(spec, initial).id;
  }

  JobConfig config(std::uint32_t min_workers, std::uint32_t max_workers, std::uint32_t rounds = 1) const {
    JobConfig config;
    config.name = "small";
    config.dataset_id = dataset;
    config.model_id = model;
    config.seed = 1;
    config.distributed = DistributedConfig{};
    config.distributed->num_rounds = rounds;
    config.distributed->steps_per_round = 1;
    config.distributed->min_workers = min_workers;
    config.distributed->max_workers = max_workers;
    config.distributed->aggregation_timeout = 60;
    return config;
  }

  /// So many new workers, connected.
  std::vector<ManualWorker> join(std::size_t count) const {
    std::vector<ManualWorker> workers;
    for (std::size_t i = 0; i < count; ++i) workers.push_back(ManualWorker::join(*coordinator));
    return workers;
  }
  /// A job that takes exactly these workers, so that each has a partition and a place from the start.
  JobConfig config_for(const std::vector<ManualWorker> &workers, std::uint32_t min_workers,
                       std::uint32_t rounds = 1) const {
    JobConfig config = this->config(min_workers, static_cast<std::uint32_t>(workers.size()), rounds);
    config.worker_selection.mode = SelectionMode::own;
    for (const ManualWorker &worker : workers) config.worker_selection.worker_ids.push_back(worker.id());
    return config;
  }

  /// The data stays with the workers, so that a test chooses how many examples each states.
  void use_local_data() {
    DatasetSpec spec;
    spec.name = "mine";
    spec.local = true;
    dataset = coordinator->add_dataset(spec).id;
  }
  ManualWorker join_with_data(std::uint64_t examples) {
    const WorkerCredentials credentials = coordinator->add_worker({"local", WorkerKind::own});
    ManualWorker worker(make_in_process_transport(coordinator->worker_service(), credentials.token));
    worker.local_datasets = {{"mine", examples}};
    worker.connect();
    return worker;
  }

  JobStatus ended(Id job) const { return coordinator->wait(job, std::chrono::seconds(20)); }

  StateDict global(Id job, const RoundChoice &round = {}) const {
    return read_safetensors(*coordinator->store().open(coordinator->job_model(job, round).key));
  }
  float value(Id job, const RoundChoice &round = {}) const {
    return f32_elements(global(job, round).at("w")).at(0);
  }

  std::unique_ptr<Coordinator> coordinator;
  Id dataset = 0;
  Id model = 0;
};

}  // namespace parsyn::test
