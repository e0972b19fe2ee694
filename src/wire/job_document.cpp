#include "wire/job_document.hpp"

#include <algorithm>

#include "core/job_check.hpp"
#include "wire/job_values.hpp"
#include "wire/object_reader.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {
namespace {

constexpr std::size_t kWordBytesMax = 1'000;

constexpr Choices<SelectionMode, 4> kSelectionModes{{{"auto", SelectionMode::automatic},
                                                     {"own", SelectionMode::own},
                                                     {"parsyn", SelectionMode::parsyn},
                                                     {"mixed", SelectionMode::mixed}}};

void read_partitioning(ObjectReader &reader, PartitioningConfig &partitioning) {
  // The names are checked by check_job_config, for values that no document held too.
  reader.read("kind", partitioning.kind, {.bytes_max = kWordBytesMax}, Presence::optional);
  reader.read("alpha", partitioning.alpha, Presence::optional);
  reader.read_whole("shards_per_worker", partitioning.shards_per_worker, core::kShardsRange,
                    Presence::optional);
  reader.finish();
}

void read_distributed(ObjectReader &reader, DistributedConfig &distributed) {
  reader.read("enabled", distributed.enabled, Presence::optional);
  reader.read("strategy", distributed.strategy, {.bytes_max = kWordBytesMax}, Presence::optional);
  reader.read_whole("num_rounds", distributed.num_rounds, core::kRoundsRange, Presence::optional);
  reader.read_whole("steps_per_round", distributed.steps_per_round, core::kStepsPerRoundRange,
                    Presence::optional);
  reader.read_whole("min_workers", distributed.min_workers, core::kWorkersRange, Presence::optional);
  reader.read_whole("max_workers", distributed.max_workers, core::kWorkersRange, Presence::optional);
  reader.read_whole("aggregation_timeout", distributed.aggregation_timeout, core::kAggregationTimeoutRange,
                    Presence::optional);
  reader.read_whole("fault_tolerance", distributed.fault_tolerance, core::kFaultToleranceRange,
                    Presence::optional);
  if (auto section = reader.object("partitioning", Presence::optional)) {
    read_partitioning(*section, distributed.partitioning);
  }
  reader.finish();
}

void read_selection(ObjectReader &reader, WorkerSelection &selection) {
  reader.read_choice("mode", selection.mode, kSelectionModes, Presence::optional);
  reader.read_whole_list("worker_ids", selection.worker_ids, core::kIdRange, limits::kWorkersMax,
                         Presence::optional);
  reader.read_whole_list("parsyn_worker_ids", selection.parsyn_worker_ids, core::kIdRange,
                         limits::kWorkersMax, Presence::optional);
  reader.finish();
}

void read_job(ObjectReader &reader, JobConfig &job) {
  reader.read_name("name", job.name, Presence::required);
  reader.read_whole("dataset_id", job.dataset_id, core::kIdRange, Presence::required);
  reader.read_whole("model_id", job.model_id, core::kIdRange, Presence::required);
  if (auto section = reader.object("config", Presence::optional)) read_training_config(*section, job.config);
  if (auto section = reader.object("distributed", Presence::nullable)) {
    read_distributed(*section, job.distributed.emplace());
  }
  if (auto section = reader.object("worker_selection", Presence::optional)) {
    read_selection(*section, job.worker_selection);
  }
  reader.read_whole("seed", job.seed, {});
  reader.finish();
}

/// Those of check_job_config that are about what the document says, and not about a field that could not be
/// read.
void add_findings(const JobConfig &job, FaultList &faults) {
  // Against the faults of reading only: two findings may well be about one field's parts.
  std::vector<core::JobFinding> findings = core::examine_job_config(job);
  std::erase_if(findings, [&](const core::JobFinding &finding) {
    return faults.touches(finding.fault.field) ||
           std::any_of(finding.compared.begin(), finding.compared.end(),
                       [&](std::string_view field) { return faults.touches(field); });
  });
  for (core::JobFinding &finding : findings) {
    faults.add(std::move(finding.fault.field), std::move(finding.fault.code),
               std::move(finding.fault.message));
  }
}

OrderedJson distributed_value(const std::optional<DistributedConfig> &distributed) {
  if (!distributed) return nullptr;
  return {{"enabled", distributed->enabled},
          {"strategy", distributed->strategy},
          {"num_rounds", distributed->num_rounds},
          {"steps_per_round", distributed->steps_per_round},
          {"min_workers", distributed->min_workers},
          {"max_workers", distributed->max_workers},
          {"aggregation_timeout", distributed->aggregation_timeout},
          {"fault_tolerance", distributed->fault_tolerance},
          {"partitioning",
           {{"kind", distributed->partitioning.kind},
            {"alpha", number_value(distributed->partitioning.alpha)},
            {"shards_per_worker", distributed->partitioning.shards_per_worker}}}};
}

}  // namespace

OrderedJson job_config_value(const JobConfig &config) {
  return {{"name", config.name},
          {"dataset_id", config.dataset_id},
          {"model_id", config.model_id},
          {"config", training_config_value(config.config)},
          {"distributed", distributed_value(config.distributed)},
          {"worker_selection",
           {{"mode", selection_mode_name(config.worker_selection.mode)},
            {"worker_ids", config.worker_selection.worker_ids},
            {"parsyn_worker_ids", config.worker_selection.parsyn_worker_ids}}},
          {"seed", nullable(config.seed)}};
}

Parsed<JobConfig> parse_job(std::string_view text) {
  Parsed<JobConfig> parsed;
  FaultList faults;
  const auto document = read_json(text, faults);
  if (document) {
    ObjectReader reader(*document, "", faults, UnknownFields::refused);
    read_job(reader, parsed.value);
  }
  parsed.unread = faults.fields();
  if (document && document->is_object()) add_findings(parsed.value, faults);
  parsed.faults = faults.take();
  return parsed;
}

std::string job_config_json(const JobConfig &config) { return write_json(job_config_value(config)); }

}  // namespace parsyn::wire
