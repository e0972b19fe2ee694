#include "parsyn/job_config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/name_check.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/status.hpp"
#include "support/catch.hpp"

namespace {

using namespace parsyn;

JobConfig valid_job() {
  JobConfig job;
  job.name = "job";
  job.dataset_id = 1;
  job.model_id = 2;
  job.distributed = DistributedConfig{};
  return job;
}

bool has_fault(const std::vector<Fault> &faults, const std::string &field, const std::string &code) {
  return std::any_of(faults.begin(), faults.end(),
                     [&](const Fault &fault) { return fault.field == field && fault.code == code; });
}

/// The one fault of a job that `change` has spoilt.
template <typename Change>
Fault only_fault(Change change) {
  JobConfig job = valid_job();
  change(job);
  const std::vector<Fault> faults = check_job_config(job);
  REQUIRE(faults.size() == 1);
  // A message names its field, for whoever sees the message alone.
  CHECK(faults[0].message.rfind(faults[0].field, 0) == 0);
  return faults[0];
}

}  // namespace

TEST_CASE("a job of defaults with a name, a dataset and a model has no fault") {
  CHECK(check_job_config(valid_job()).empty());
  JobConfig centralised = valid_job();
  centralised.distributed.reset();
  CHECK(check_job_config(centralised).empty());
}

TEST_CASE("all faults of a job are told at once") {
  const std::vector<Fault> faults = check_job_config(JobConfig{});
  CHECK(faults.size() == 3);
  CHECK(has_fault(faults, "name", "format"));
  CHECK(has_fault(faults, "dataset_id", "range"));
  CHECK(has_fault(faults, "model_id", "range"));
}

TEST_CASE("every whole number of a job has a range, and both its ends belong to it") {
  struct Case {
    const char *field;
    std::uint32_t *(*place)(JobConfig &);
    std::uint32_t min, max;
  };
  const std::vector<Case> cases{
      {"config.epochs", [](JobConfig &j) { return &j.config.epochs; }, 1, limits::kEpochsMax},
      {"config.batch_size", [](JobConfig &j) { return &j.config.batch_size; }, 1, limits::kBatchSizeMax},
      {"config.lora_r", [](JobConfig &j) { return &j.config.lora_r; }, 1, 1024},
      {"config.threads", [](JobConfig &j) { return &j.config.threads; }, 1, 1024},
      {"config.early_stopping.patience",
       [](JobConfig &j) {
         if (!j.config.early_stopping) j.config.early_stopping.emplace();
         return &j.config.early_stopping->patience;
       },
       1, limits::kRoundsMax},
      {"distributed.num_rounds", [](JobConfig &j) { return &j.distributed->num_rounds; }, 1,
       limits::kRoundsMax},
      {"distributed.steps_per_round", [](JobConfig &j) { return &j.distributed->steps_per_round; }, 1,
       limits::kStepsPerRoundMax},
      {"distributed.aggregation_timeout", [](JobConfig &j) { return &j.distributed->aggregation_timeout; }, 1,
       limits::kAggregationTimeoutSecondsMax},
      {"distributed.fault_tolerance", [](JobConfig &j) { return &j.distributed->fault_tolerance; }, 0,
       limits::kFaultToleranceMax},
      {"distributed.partitioning.shards_per_worker",
       [](JobConfig &j) { return &j.distributed->partitioning.shards_per_worker; }, 1, 10'000},
  };
  for (const Case &one : cases) {
    INFO(one.field);
    JobConfig job = valid_job();
    for (const std::uint32_t value : {one.min, one.max}) {
      *one.place(job) = value;
      CHECK(check_job_config(job).empty());
    }
    const auto refuse = [&](std::uint32_t value) {
      const Fault fault = only_fault([&](JobConfig &spoilt) { *one.place(spoilt) = value; });
      CHECK(fault.field == one.field);
      CHECK(fault.code == "range");
      CHECK(fault.message.find(std::to_string(value)) != std::string::npos);
      CHECK(fault.message.find(std::to_string(one.max)) != std::string::npos);
    };
    refuse(one.max + 1);
    if (one.min > 0) refuse(one.min - 1);
  }
}

TEST_CASE("every real number of a job has a range without what is not finite") {
  struct Case {
    const char *field;
    double *(*place)(JobConfig &);
    std::vector<double> right, wrong;
  };
  const double tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<Case> cases{
      {"config.learning_rate",
       [](JobConfig &j) { return &j.config.learning_rate; },
       {tiny, std::numeric_limits<float>::max()},
       {0, -0.1, 3.5e38, 1e308}},
      {"config.momentum", [](JobConfig &j) { return &j.config.momentum; }, {0, 0.999}, {1, -tiny}},
      {"config.weight_decay", [](JobConfig &j) { return &j.config.weight_decay; }, {0, 2}, {-tiny}},
      {"config.max_grad_norm", [](JobConfig &j) { return &j.config.max_grad_norm; }, {0, 1}, {-1}},
      {"config.lora_alpha", [](JobConfig &j) { return &j.config.lora_alpha; }, {1}, {0, -1}},
      {"config.early_stopping.min_delta",
       [](JobConfig &j) {
         if (!j.config.early_stopping) j.config.early_stopping.emplace();
         return &j.config.early_stopping->min_delta;
       },
       {0, 0.5},
       {-tiny}},
      {"distributed.partitioning.alpha",
       [](JobConfig &j) { return &j.distributed->partitioning.alpha; },
       {0.01},
       {0}},
  };
  for (Case one : cases) {
    INFO(one.field);
    for (const double value : one.right) {
      JobConfig job = valid_job();
      *one.place(job) = value;
      CHECK(check_job_config(job).empty());
    }
    one.wrong.insert(one.wrong.end(), {std::nan(""), HUGE_VAL, -HUGE_VAL});
    for (const double value : one.wrong) {
      const Fault fault = only_fault([&](JobConfig &job) { *one.place(job) = value; });
      CHECK(fault.field == one.field);
      CHECK(fault.code == "range");
    }
  }
}

TEST_CASE("min_workers may not exceed max_workers, and max_workers is bounded") {
  const Fault fault = only_fault([](JobConfig &job) {
    job.distributed->min_workers = 7;
    job.distributed->max_workers = 6;
  });
  CHECK(fault.field == "distributed.min_workers");
  CHECK(fault.code == "contradiction");
  CHECK(fault.message.find("7") != std::string::npos);
  CHECK(fault.message.find("6") != std::string::npos);

  CHECK(only_fault([](JobConfig &job) {
          job.distributed->max_workers = limits::kWorkersPerRoundMax + 1;
        }).field == "distributed.max_workers");
  CHECK(only_fault([](JobConfig &job) { job.distributed->min_workers = 0; }).code == "range");
}

TEST_CASE("another strategy or partitioning is refused by name") {
  const Fault strategy = only_fault([](JobConfig &job) { job.distributed->strategy = "fedprox"; });
  CHECK(strategy.field == "distributed.strategy");
  CHECK(strategy.code == "unknown_value");
  CHECK(strategy.message.find("fedprox is not available; use federated_averaging") != std::string::npos);

  const Fault kind = only_fault([](JobConfig &job) { job.distributed->partitioning.kind = "random"; });
  CHECK(kind.field == "distributed.partitioning.kind");
  CHECK(kind.message.find("random") != std::string::npos);
  for (const char *name : {"even", "dirichlet", "shards"}) {
    JobConfig job = valid_job();
    job.distributed->partitioning.kind = name;
    CHECK(check_job_config(job).empty());
  }
}

TEST_CASE("each selection mode takes its own ids and no others") {
  const auto faults_of = [](SelectionMode mode, std::vector<Id> own, std::vector<Id> parsyn) {
    JobConfig job = valid_job();
    job.distributed->min_workers = 1;
    job.worker_selection = {mode, std::move(own), std::move(parsyn)};
    return check_job_config(job);
  };
  CHECK(faults_of(SelectionMode::automatic, {}, {}).empty());
  CHECK(faults_of(SelectionMode::own, {1}, {}).empty());
  CHECK(faults_of(SelectionMode::parsyn, {}, {1}).empty());
  CHECK(faults_of(SelectionMode::mixed, {1}, {2}).empty());
  CHECK(faults_of(SelectionMode::mixed, {1}, {}).empty());
  CHECK(faults_of(SelectionMode::mixed, {}, {1}).empty());

  CHECK(has_fault(faults_of(SelectionMode::automatic, {1}, {}), "worker_selection.worker_ids",
                  "contradiction"));
  CHECK(has_fault(faults_of(SelectionMode::automatic, {}, {1}), "worker_selection.parsyn_worker_ids",
                  "contradiction"));
  CHECK(has_fault(faults_of(SelectionMode::own, {}, {}), "worker_selection.worker_ids", "required"));
  CHECK(has_fault(faults_of(SelectionMode::own, {1}, {2}), "worker_selection.parsyn_worker_ids",
                  "contradiction"));
  CHECK(
      has_fault(faults_of(SelectionMode::parsyn, {}, {}), "worker_selection.parsyn_worker_ids", "required"));
  CHECK(
      has_fault(faults_of(SelectionMode::parsyn, {1}, {2}), "worker_selection.worker_ids", "contradiction"));
  CHECK(has_fault(faults_of(SelectionMode::mixed, {}, {}), "worker_selection.worker_ids", "required"));
}

TEST_CASE("a worker is named once, and never by 0") {
  JobConfig job = valid_job();
  job.worker_selection = {SelectionMode::mixed, {3, 3, 0}, {3, 4}};
  const std::vector<Fault> faults = check_job_config(job);
  CHECK(faults.size() == 3);
  CHECK(has_fault(faults, "worker_selection.worker_ids[1]", "duplicate_id"));
  CHECK(has_fault(faults, "worker_selection.worker_ids[2]", "range"));
  CHECK(has_fault(faults, "worker_selection.parsyn_worker_ids[0]", "duplicate_id"));
}

TEST_CASE("min_workers above the number of selected workers is refused with both numbers") {
  const Fault fault = only_fault([](JobConfig &job) {
    job.distributed->min_workers = 4;
    job.worker_selection = {SelectionMode::mixed, {11}, {12, 13}};
  });
  CHECK(fault.field == "distributed.min_workers");
  CHECK(fault.message.find("is 4") != std::string::npos);
  CHECK(fault.message.find("names 3 workers") != std::string::npos);

  JobConfig centralised = valid_job();
  centralised.distributed->enabled = false;
  centralised.worker_selection = {SelectionMode::own, {11}, {}};
  CHECK(check_job_config(centralised).empty());
}

TEST_CASE("a name is 1 to 200 bytes of UTF-8 without control characters") {
  const auto refused = [](const std::string &name) {
    JobConfig job = valid_job();
    job.name = name;
    return has_fault(check_job_config(job), "name", "format");
  };
  CHECK_FALSE(refused("../../etc/passwd %s <b>"));
  CHECK_FALSE(
      refused("Gr\xC3\xBC\xC3\x9F"
              "e \xE6\x97\xA5 \xF0\x9F\x98\x80"));
  CHECK_FALSE(refused(std::string(200, 'a')));
  CHECK(refused(""));
  CHECK(refused(std::string(201, 'a')));
  CHECK(refused(std::string("a\0b", 3)));
  CHECK(refused("a\nb"));
  CHECK(refused("a\x7F"));
  CHECK(refused("a\xC2\x85"));  // U+0085
  CHECK(refused("\xFF\xFE"));
  CHECK(refused("\xED\xA0\x80"));  // a surrogate
  CHECK(refused("\xC0\xAF"));      // longer than needed
  CHECK(refused("\xE0\x80\xAF"));
  CHECK(refused("\xF4\x90\x80\x80"));  // above U+10FFFF
  CHECK(refused("\xE6\x97"));          // cut short
}

TEST_CASE("a name shows something, and nothing in it is hidden") {
  for (const char *right :
       {"a b", "\xE2\x9D\xA4\xEF\xB8\x8F", "\xED\x95\x9C", "\xD9\x85", "\xF0\x9F\x98\x80"}) {
    INFO(right);
    CHECK(core::why_name_is_refused(right).empty());
  }
  const auto says = [](const std::string &name, const std::string &text) {
    INFO(name);
    CHECK(core::why_name_is_refused(name).find(text) != std::string::npos);
  };
  for (const char *blank :
       {" ", "   ", "\xC2\xA0", "\xE3\x80\x80 \xE2\x80\x83", "\xE3\x85\xA4", "\xEF\xB8\x8F"})
    says(blank, "no visible character");
  for (const std::string around : {"", "a"}) {
    says(around + "\xE2\x80\x8B" + around, "format character U+200B");
    says(around + "\xEF\xBB\xBF" + around, "format character U+FEFF");
    says(around + "\xF3\xA0\x80\x81" + around, "format character U+E0001");
    says(around + "\xE2\x80\xAE" + around, "format character U+202E");
    says(around + "\xC2\xAD" + around, "format character U+00AD");
    says(around + "\xE2\x80\x8E" + around, "format character U+200E");
  }
}

TEST_CASE("a name may have joiners between two visible characters only") {
  const std::string joiner = "\xE2\x80\x8D";      // U+200D
  const std::string non_joiner = "\xE2\x80\x8C";  // U+200C
  const std::string selector = "\xEF\xB8\x8F";    // U+FE0F
  const std::string heart = "\xE2\x9D\xA4";
  const std::string fire = "\xF0\x9F\x94\xA5";
  const std::string mim = "\xD9\x85";
  for (const std::string &right :
       {mim + non_joiner + mim, mim + joiner + mim, fire + joiner + fire, heart + selector + joiner + fire,
        "a" + joiner + "b" + joiner + "c", fire + joiner + heart + selector}) {
    INFO(right);
    CHECK(core::why_name_is_refused(right).empty());
  }
  for (const std::string &each : {joiner, non_joiner}) {
    const std::string text = each == joiner ? "joiner U+200D, but not" : "joiner U+200C, but not";
    for (const std::string &wrong :
         {each, each + "a", "a" + each, "a" + each + each + "b", "a " + each + "b", "a" + each + " b",
          selector + each + "a", "a" + each + selector + "b", "a" + joiner + non_joiner + "b"}) {
      INFO(wrong);
      const std::string why = core::why_name_is_refused(wrong);
      CHECK(why.find("but not between two visible characters") != std::string::npos);
      if (wrong != "a" + joiner + non_joiner + "b") CHECK(why.find(text) != std::string::npos);
    }
  }
}

TEST_CASE("enumerations have the names of the REST API") {
  CHECK(optimizer_name(Optimizer::sgd) == "sgd");
  CHECK(optimizer_name(Optimizer::adamw) == "adamw");
  CHECK(lr_schedule_name(LearningRateSchedule::constant) == "constant");
  CHECK(lr_schedule_name(LearningRateSchedule::linear) == "linear");
  CHECK(lr_schedule_name(LearningRateSchedule::cosine) == "cosine");
  CHECK(mixed_precision_name(MixedPrecision::no) == "no");
  CHECK(mixed_precision_name(MixedPrecision::bf16) == "bf16");
  CHECK(selection_mode_name(SelectionMode::automatic) == "auto");
  CHECK(selection_mode_name(SelectionMode::mixed) == "mixed");
  CHECK(worker_kind_name(WorkerKind::own) == "own");
  CHECK(worker_kind_name(WorkerKind::parsyn) == "parsyn");
}

TEST_CASE("completed, failed, stopped and cancelled are terminal, and no other state is") {
  CHECK(job_state_name(JobState::waiting) == "waiting");
  CHECK(job_state_name(JobState::cancelled) == "cancelled");
  for (const JobState state : {JobState::waiting, JobState::running, JobState::evaluating})
    CHECK_FALSE(is_terminal(state));
  for (const JobState state :
       {JobState::completed, JobState::failed, JobState::stopped, JobState::cancelled}) {
    CHECK(is_terminal(state));
  }
}
