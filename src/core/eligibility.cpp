#include <algorithm>

#include "core/counted.hpp"
#include "core/job.hpp"

namespace parsyn::core {

std::string why_not_capable(const TrainingConfig &config, const ModelDescription &model,
                            const TrainerCapabilities &capabilities) {
  if (std::ranges::find(capabilities.model_kinds, model.kind) == capabilities.model_kinds.end()) {
    return "it cannot train models of kind " + model.kind;
  }
  if (config.mixed_precision == MixedPrecision::bf16 && !capabilities.bf16) {
    return "its device (" + capabilities.device + ") has no bf16";
  }
  if (config.use_peft && !capabilities.lora) return "it has no LoRA for models of kind " + model.kind;
  return {};
}

bool is_selected(const JobConfig &config, const WorkerProfile &worker) {
  const WorkerSelection &selection = config.worker_selection;
  if (selection.mode == SelectionMode::automatic) return true;
  const auto &ids = worker.kind == WorkerKind::own ? selection.worker_ids : selection.parsyn_worker_ids;
  return std::ranges::find(ids, worker.id) != ids.end();
}

std::string why_not_eligible(const JobSetup &job, const WorkerProfile &worker) {
  if (auto reason = why_not_capable(job.config.config, job.model, worker.capabilities); !reason.empty())
    return reason;
  if (!job.local_data) return {};
  const auto own = std::ranges::find(worker.local_datasets, job.dataset_name, &LocalDataset::name);
  if (own == worker.local_datasets.end()) {
    return "it has no local data named " + job.dataset_name + " (start it with --data " + job.dataset_name +
           "=PATH)";
  }
  if (own->num_examples > job.examples_per_worker_max) {
    return "it states " + counted(own->num_examples, "example") + "; at most " +
           std::to_string(job.examples_per_worker_max) + " are taken";
  }
  return {};
}

}  // namespace parsyn::core
