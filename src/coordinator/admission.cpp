#include "coordinator/admission.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/counted.hpp"
#include "core/job.hpp"
#include "core/job_check.hpp"

namespace parsyn::coordinator {
namespace {

class Checker {
 public:
  Checker(const JobConfig &config, const Registered &registered, const std::vector<std::string> &unread)
      : config_(config), registered_(registered), unread_(unread) {}

  std::vector<Fault> run() {
    dataset_ = config_.dataset_id > 0 ? registered_.dataset(config_.dataset_id) : nullptr;
    model_ = config_.model_id > 0 ? registered_.model(config_.model_id) : nullptr;
    if (dataset_ == nullptr && config_.dataset_id > 0) {
      add("dataset_id", "unknown_id", "there is no dataset " + std::to_string(config_.dataset_id));
    }
    if (model_ == nullptr && config_.model_id > 0)
      add("model_id", "unknown_id", "there is no model " + std::to_string(config_.model_id));
    if (dataset_ != nullptr) check_dataset();
    if (model_ != nullptr) check_model();
    if (dataset_ != nullptr && model_ != nullptr && dataset_->train) check_fit(*dataset_->train, "training");
    if (dataset_ != nullptr && dataset_->train && dataset_->validation) check_validation();
    check_workers(config_.worker_selection.worker_ids, WorkerKind::own, "worker_selection.worker_ids");
    check_workers(config_.worker_selection.parsyn_worker_ids, WorkerKind::parsyn,
                  "worker_selection.parsyn_worker_ids");
    return std::move(faults_);
  }

 private:
  /// `compared`: the fields that it follows from, beside its own.
  void add(std::string field, std::string code, std::string message,
           std::initializer_list<std::string_view> compared = {}) {
    const auto is_unread = [&](std::string_view one) {
      return std::ranges::any_of(unread_,
                                 [&](const std::string &other) { return core::overlap(one, other); });
    };
    if (is_unread(field) || std::ranges::any_of(compared, is_unread)) return;
    faults_.push_back({std::move(field), std::move(code), std::move(message)});
  }

  void check_dataset() {
    const bool skewed = config_.is_distributed() && config_.distributed->partitioning.kind != "even";
    if (dataset_->local) {
      if (skewed) {
        add("distributed.partitioning.kind", "contradiction",
            "the data of dataset " + std::to_string(dataset_->id) +
                " stays with the workers and is not divided",
            {"distributed.enabled"});
      }
      return;
    }
    if (skewed && dataset_->train->y_dtype != Dtype::i64) {
      add("distributed.partitioning.kind", "contradiction",
          config_.distributed->partitioning.kind + " divides by class labels; dataset " +
              std::to_string(dataset_->id) + " has none",
          {"distributed.enabled"});
    }
    if (!config_.is_distributed()) return;
    const WorkerSelection &selection = config_.worker_selection;
    const std::uint64_t selected = selection.worker_ids.size() + selection.parsyn_worker_ids.size();
    const std::uint64_t partitions =
        selection.mode == SelectionMode::automatic ? config_.distributed->min_workers : selected;
    if (dataset_->train->num_examples < partitions) {
      add("dataset_id", "too_few_examples",
          "dataset " + std::to_string(dataset_->id) + " has " +
              core::counted(dataset_->train->num_examples, "training example") + " for " +
              core::counted(partitions, "worker") + ": every worker needs at least one",
          {"distributed.enabled", "distributed.min_workers", "worker_selection"});
    }
  }

  void check_model() {
    if (config_.config.use_peft && model_->description.kind != "custom") {
      add("config.use_peft", "unsupported",
          "model " + std::to_string(model_->id) + " (kind " + model_->description.kind +
              ") has no LoRA: set use_peft to false");
    }
  }

  void check_validation() {
    if (dataset_->validation->input_shape != dataset_->train->input_shape) {
      add("dataset_id", "contradiction",
          "training inputs have shape " + shape_text(dataset_->train->input_shape) + ", validation inputs " +
              shape_text(dataset_->validation->input_shape));
    }
    if (model_ != nullptr) check_fit(*dataset_->validation, "validation");
  }

  void check_fit(const DatasetShape &data, const std::string &part) {
    const ModelDescription &model = model_->description;
    if (model.kind == "custom") return;
    const std::string which = "dataset " + std::to_string(dataset_->id) + " (" + part + ")";
    const bool classes = data.y_dtype == Dtype::i64 && data.target_shape.empty();
    if (model.loss == "cross_entropy" && !classes) {
      add("dataset_id", "does_not_fit",
          which + " has no class labels, which the model's loss cross_entropy needs");
    }
    if (model.loss == "mse" && data.y_dtype != Dtype::f32) {
      add("dataset_id", "does_not_fit",
          which + " has class labels; the model's loss mse needs numbers (F32 targets)");
    }
    if (classes && data.label_min < 0 && model.loss == "cross_entropy") {
      add("dataset_id", "does_not_fit",
          which + " has the label " + std::to_string(data.label_min) + "; class labels start at 0");
    }
    if (model.kind != "mlp" || model.sizes.size() < 2) return;
    std::uint64_t inputs = 1;
    for (const std::uint64_t size : data.input_shape) inputs *= size;
    if (inputs != model.sizes.front()) {
      add("model_id", "does_not_fit",
          which + " has inputs of shape " + shape_text(data.input_shape) + ", " + std::to_string(inputs) +
              " numbers; the model takes " + std::to_string(model.sizes.front()));
    }
    if (model.loss == "cross_entropy" && classes && data.label_max >= 0 &&
        static_cast<std::uint64_t>(data.label_max) >= model.sizes.back()) {
      add("model_id", "does_not_fit",
          which + " has labels up to " + std::to_string(data.label_max) + "; the model has " +
              std::to_string(model.sizes.back()) + " outputs");
    }
    if (model.loss == "mse" && data.y_dtype == Dtype::f32) {
      std::uint64_t targets = 1;
      for (const std::uint64_t size : data.target_shape) targets *= size;
      if (targets != model.sizes.back()) {
        add("model_id", "does_not_fit",
            which + " has " + std::to_string(targets) + " targets per example; the model has " +
                std::to_string(model.sizes.back()) + " outputs");
      }
    }
  }

  void check_workers(const std::vector<Id> &ids, WorkerKind kind, const std::string &field) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string where = field + "[" + std::to_string(i) + "]";
      const WorkerInfo *worker = registered_.worker(ids[i]);
      if (worker == nullptr) {
        if (ids[i] > 0) add(where, "unknown_id", "there is no worker " + std::to_string(ids[i]));
        continue;
      }
      if (worker->kind != kind) {
        add(where, "wrong_kind",
            "worker " + std::to_string(ids[i]) + " is of kind " +
                std::string(worker_kind_name(worker->kind)) + ": list it in " +
                (kind == WorkerKind::own ? "parsyn_worker_ids" : "worker_ids"));
        continue;
      }
      if (!worker->live || !worker->capabilities || model_ == nullptr) continue;
      const std::string reason =
          core::why_not_capable(config_.config, model_->description, *worker->capabilities);
      if (!reason.empty())
        add(where, "unsupported",
            "worker " + std::to_string(ids[i]) + " (" + worker->name + ") cannot do this job: " + reason);
    }
  }

  const JobConfig &config_;
  const Registered &registered_;
  const std::vector<std::string> &unread_;
  const DatasetInfo *dataset_ = nullptr;
  const ModelInfo *model_ = nullptr;
  std::vector<Fault> faults_;
};

}  // namespace

std::vector<Fault> check_against_registry(const JobConfig &config, const Registered &registered,
                                          const std::vector<std::string> &unread) {
  return Checker(config, registered, unread).run();
}

}  // namespace parsyn::coordinator
