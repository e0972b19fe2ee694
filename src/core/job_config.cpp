#include "parsyn/job_config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "core/counted.hpp"
#include "core/job_check.hpp"
#include "core/job_ranges.hpp"
#include "core/name_check.hpp"
#include "text/utf8.hpp"

namespace parsyn {
namespace core {

std::string range_message(std::string_view value, const WholeRange &range) {
  return "is " + std::string(value) + "; it must be a whole number from " + std::to_string(range.min) +
         " to " + std::to_string(range.max);
}

namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

class JobExaminer {
 public:
  explicit JobExaminer(const JobConfig &job) : job_(job) {}

  std::vector<JobFinding> run() {
    if (const std::string why = why_name_is_refused(job_.name); !why.empty()) add("name", "format", why);
    whole("dataset_id", job_.dataset_id, kIdRange);
    whole("model_id", job_.model_id, kIdRange);
    examine(job_.config);
    if (job_.distributed) examine(*job_.distributed);
    examine(job_.worker_selection);
    return std::move(findings_);
  }

 private:
  void add(std::string field, std::string code, const std::string &what,
           std::vector<std::string_view> compared = {}) {
    std::string message = field + " " + what;
    findings_.push_back({{std::move(field), std::move(code), std::move(message)}, std::move(compared)});
  }

  void add_unknown(const std::string &field, const std::string &value, const std::string &right) {
    findings_.push_back(
        {{field, "unknown_value", field + ": " + shown(value) + " is not available; use " + right}, {}});
  }

  void whole(const std::string &field, std::uint64_t value, const WholeRange &range) {
    if (!range.holds(value)) add(field, "range", range_message(std::to_string(value), range));
  }

  void number(const std::string &field, double value, bool right, const std::string &what_is_right) {
    if (!std::isfinite(value) || !right) {
      add(field, "range", "is " + number_text(value) + "; it must be " + what_is_right);
    }
  }

  void examine(const TrainingConfig &config) {
    whole("config.epochs", config.epochs, kEpochsRange);
    whole("config.batch_size", config.batch_size, kBatchSizeRange);
    number("config.learning_rate", config.learning_rate,
           config.learning_rate > 0 && config.learning_rate <= kLearningRateMax,
           "a number above 0, at most " + number_text(kLearningRateMax));
    number("config.momentum", config.momentum, config.momentum >= 0 && config.momentum < 1,
           "a number from 0 to below 1");
    number("config.weight_decay", config.weight_decay, config.weight_decay >= 0,
           "a finite number, 0 or more");
    whole("config.warmup_steps", config.warmup_steps, kWarmupStepsRange);
    number("config.max_grad_norm", config.max_grad_norm, config.max_grad_norm >= 0,
           "a finite number, 0 or more, where 0 is no clipping");
    whole("config.lora_r", config.lora_r, kLoraRankRange);
    number("config.lora_alpha", config.lora_alpha, config.lora_alpha > 0, "a finite number above 0");
    whole("config.threads", config.threads, kThreadsRange);
    if (config.early_stopping) {
      whole("config.early_stopping.patience", config.early_stopping->patience, kPatienceRange);
      number("config.early_stopping.min_delta", config.early_stopping->min_delta,
             config.early_stopping->min_delta >= 0, "a finite number, 0 or more");
    }
  }

  void examine(const DistributedConfig &distributed) {
    if (distributed.strategy != "federated_averaging") {
      add_unknown("distributed.strategy", distributed.strategy, "federated_averaging");
    }
    whole("distributed.num_rounds", distributed.num_rounds, kRoundsRange);
    whole("distributed.steps_per_round", distributed.steps_per_round, kStepsPerRoundRange);
    whole("distributed.min_workers", distributed.min_workers, kWorkersRange);
    whole("distributed.max_workers", distributed.max_workers, kWorkersRange);
    whole("distributed.aggregation_timeout", distributed.aggregation_timeout, kAggregationTimeoutRange);
    whole("distributed.fault_tolerance", distributed.fault_tolerance, kFaultToleranceRange);
    if (kWorkersRange.holds(distributed.min_workers) && kWorkersRange.holds(distributed.max_workers) &&
        distributed.min_workers > distributed.max_workers) {
      add("distributed.min_workers", "contradiction",
          "is " + std::to_string(distributed.min_workers) + ", but distributed.max_workers is " +
              std::to_string(distributed.max_workers) + "; a round cannot need more workers than it invites",
          {"distributed.min_workers", "distributed.max_workers"});
    }
    const PartitioningConfig &partitioning = distributed.partitioning;
    if (partitioning.kind != "even" && partitioning.kind != "dirichlet" && partitioning.kind != "shards") {
      add_unknown("distributed.partitioning.kind", partitioning.kind, "even, dirichlet or shards");
    }
    number("distributed.partitioning.alpha", partitioning.alpha, partitioning.alpha > 0,
           "a finite number above 0");
    whole("distributed.partitioning.shards_per_worker", partitioning.shards_per_worker, kShardsRange);
  }

  void examine(const WorkerSelection &selection) {
    examine_ids("worker_selection.worker_ids", selection.worker_ids);
    examine_ids("worker_selection.parsyn_worker_ids", selection.parsyn_worker_ids);

    const bool own = !selection.worker_ids.empty();
    const bool parsyn = !selection.parsyn_worker_ids.empty();
    switch (selection.mode) {
      case SelectionMode::automatic:
        if (own) must_be_empty("worker_selection.worker_ids", "own or mixed");
        if (parsyn) must_be_empty("worker_selection.parsyn_worker_ids", "parsyn or mixed");
        break;
      case SelectionMode::own:
        if (!own) must_have_one("worker_selection.worker_ids");
        if (parsyn) must_be_empty("worker_selection.parsyn_worker_ids", "parsyn or mixed");
        break;
      case SelectionMode::parsyn:
        if (own) must_be_empty("worker_selection.worker_ids", "own or mixed");
        if (!parsyn) must_have_one("worker_selection.parsyn_worker_ids");
        break;
      case SelectionMode::mixed:
        if (!own && !parsyn) must_have_one("worker_selection.worker_ids");
        break;
    }
    examine_number_of_ids(selection);
  }

  void must_be_empty(const std::string &field, const std::string &modes) {
    add(field, "contradiction",
        "must be empty in mode " + std::string(selection_mode_name(job_.worker_selection.mode)) +
            "; remove the ids, or set worker_selection.mode to " + modes,
        {"worker_selection"});
  }

  void must_have_one(const std::string &field) {
    add(field, "required",
        "is empty; mode " + std::string(selection_mode_name(job_.worker_selection.mode)) +
            " needs at least one id, and mode auto takes none",
        {"worker_selection"});
  }

  void examine_ids(const std::string &field, const std::vector<Id> &ids) {
    if (ids.size() > limits::kWorkersMax) {
      add(field, "range",
          "has " + std::to_string(ids.size()) + " ids; at most " + std::to_string(limits::kWorkersMax) +
              " are possible");
      return;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string place = field + "[" + std::to_string(i) + "]";
      if (!kIdRange.holds(ids[i])) {
        add(place, "range", range_message(std::to_string(ids[i]), kIdRange));
      } else if (const auto [first, fresh] = first_place_.emplace(ids[i], place); !fresh) {
        add(place, "duplicate_id",
            "is " + std::to_string(ids[i]) + ", which " + first->second +
                " names already; name each worker once");
      }
    }
  }

  void examine_number_of_ids(const WorkerSelection &selection) {
    const std::size_t selected = selection.worker_ids.size() + selection.parsyn_worker_ids.size();
    if (!job_.is_distributed() || selection.mode == SelectionMode::automatic || selected == 0) return;
    if (job_.distributed->min_workers > selected) {
      add("distributed.min_workers", "contradiction",
          "is " + std::to_string(job_.distributed->min_workers) + ", but worker_selection names " +
              counted(selected, "worker") + "; lower it, or name more workers, or no round can ever close",
          {"distributed.enabled", "distributed.min_workers", "worker_selection"});
    }
  }

  static std::string shown(const std::string &text) {
    constexpr std::size_t kShownMax = 60;
    if (!text::is_utf8(text) || text::has_control_characters(text)) return "this text";
    if (text.size() > kShownMax) return "this long text";
    return text.empty() ? "an empty text" : text;
  }

  const JobConfig &job_;
  std::vector<JobFinding> findings_;
  std::map<Id, std::string> first_place_;
};

}  // namespace

std::vector<JobFinding> examine_job_config(const JobConfig &config) { return JobExaminer(config).run(); }

}  // namespace core

std::string_view optimizer_name(Optimizer value) {
  switch (value) {
    case Optimizer::sgd:
      return "sgd";
    case Optimizer::adamw:
      return "adamw";
  }
  return "unknown";
}

std::string_view lr_schedule_name(LearningRateSchedule value) {
  switch (value) {
    case LearningRateSchedule::constant:
      return "constant";
    case LearningRateSchedule::linear:
      return "linear";
    case LearningRateSchedule::cosine:
      return "cosine";
  }
  return "unknown";
}

std::string_view mixed_precision_name(MixedPrecision value) {
  switch (value) {
    case MixedPrecision::no:
      return "no";
    case MixedPrecision::bf16:
      return "bf16";
  }
  return "unknown";
}

std::string_view selection_mode_name(SelectionMode value) {
  switch (value) {
    case SelectionMode::automatic:
      return "auto";
    case SelectionMode::own:
      return "own";
    case SelectionMode::parsyn:
      return "parsyn";
    case SelectionMode::mixed:
      return "mixed";
  }
  return "unknown";
}

std::vector<Fault> check_job_config(const JobConfig &config) {
  std::vector<Fault> faults;
  for (core::JobFinding &finding : core::examine_job_config(config))
    faults.push_back(std::move(finding.fault));
  return faults;
}

}  // namespace parsyn
