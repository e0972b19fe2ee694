#include "sim/operator.hpp"

#include "parsyn/error.hpp"
#include "wire/resource_json.hpp"

namespace parsyn::sim {
namespace {

constexpr std::uint64_t kInputs = 3;
constexpr std::size_t kEventsAtOnce = 1'000;

Examples make_examples(std::uint64_t count) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t j = 0; j < kInputs; ++j) x.push_back(static_cast<float>(i * kInputs + j) * 0.25F);
    y.push_back(static_cast<std::int64_t>(i % 2));
  }
  Tensor labels{Dtype::i64, {count}, {}};
  const auto bytes = std::as_bytes(std::span(y));
  labels.data.assign(bytes.begin(), bytes.end());
  return {make_f32_tensor({count, kInputs}, x), labels};
}

StateDict make_weights(std::size_t number) {
  std::vector<float> elements;
  for (int i = 0; i < 12; ++i) elements.push_back(static_cast<float>(i + static_cast<int>(number)) / 7.0F);
  StateDict weights;
  weights["layer.weight"] = make_f32_tensor({4, 3}, elements);
  weights["layer.bias"] = make_f32_tensor({5}, {0.1F, -0.2F, 0.3F, -0.4F, 0.5F});
  weights["seen"] = Tensor{Dtype::i64, {}, std::vector<std::byte>(8)};
  return weights;
}

/// What passes when the coordinator, or its disk, is there again.
bool may_pass(const Error &error) {
  return error.code() == ErrorCode::unavailable || error.code() == ErrorCode::cancelled ||
         error.code() == ErrorCode::io;
}

}  // namespace

std::string local_data_name(std::size_t number) { return "local " + std::to_string(number); }

Operator::Operator(const Plan &plan, World &world, Ledger &ledger,
                   std::function<void(std::size_t)> registered)
    : plan_(plan),
      world_(world),
      ledger_(ledger),
      registered_(std::move(registered)),
      workers_(plan.workers.size()),
      jobs_(plan.jobs.size()) {}

void Operator::acknowledged(const char *table, Id id) {
  world_.trace(std::string("operator: ") + table + " " + std::to_string(id) + " is acknowledged");
  if (!ids_[table].insert(id).second)
    ledger_.fail(std::string(table) + " " + std::to_string(id) + " was given out twice");
  ledger_.expect_kept(table, id);
}

void Operator::work(Coordinator &coordinator) {
  try {
    for (std::size_t place = 0; place < workers_.size(); ++place) {
      if (workers_[place]) continue;
      const WorkerCredentials credentials =
          coordinator.add_worker({.name = "worker " + std::to_string(place), .kind = WorkerKind::own});
      acknowledged("workers", credentials.worker.id);
      workers_[place] = credentials;
      registered_(place);
    }
    for (std::size_t number = 0; number < jobs_.size(); ++number) work_on_job(number, coordinator);
    refusals_of_disk_ = 0;
  } catch (const Error &error) {
    world_.trace("operator: " + error.message());
    if (error.code() == ErrorCode::io) ++refusals_of_disk_;
    if (!may_pass(error)) ledger_.fail("an operator was refused: " + error.message());
  }
}

JobConfig Operator::config_of(std::size_t number) const {
  const JobPlan &plan = plan_.jobs[number];
  JobConfig config = plan.config;
  config.dataset_id = jobs_[number].dataset;
  config.model_id = jobs_[number].model;
  for (const int place : plan.selected) {
    config.worker_selection.mode = SelectionMode::own;
    config.worker_selection.worker_ids.push_back(workers_[static_cast<std::size_t>(place)]->worker.id);
  }
  return config;
}

void Operator::work_on_job(std::size_t number, Coordinator &coordinator) {
  const JobPlan &plan = plan_.jobs[number];
  JobProgress &job = jobs_[number];
  if (job.dataset == 0) {
    DatasetInfo info;
    if (plan.local) {
      DatasetSpec spec;
      spec.name = local_data_name(number);
      spec.local = true;
      info = coordinator.add_dataset(spec);
    } else {
      std::optional<Examples> validation;
      if (plan.validation_examples > 0) validation = make_examples(plan.validation_examples);
      info = coordinator.add_dataset("data", make_examples(plan.examples), validation);
    }
    acknowledged("datasets", info.id);
    job.dataset = info.id;
  }
  if (job.model == 0) {
    ModelSpec spec;
    spec.name = "model";
    spec.description.kind = plan.mlp ? "mlp" : "custom";
    if (plan.mlp) spec.description.sizes = {kInputs, 4, 2};
    const ModelInfo info =
        plan.mlp ? coordinator.add_model(spec) : coordinator.add_model(spec, make_weights(number));
    acknowledged("models", info.id);
    job.model = info.id;
  }
  const Time now = world_.now();
  if (job.id == 0 && now >= plan.submitted) {
    const Id id = coordinator.submit(config_of(number), plan.key).id;
    acknowledged("jobs", id);
    ledger_.expect_job_of_key(plan.key, id);
    job.id = id;
  }
  if (job.id == 0) return;
  if (plan.submitted_again && !job.submitted_again && now >= *plan.submitted_again) {
    if (coordinator.submit(config_of(number), plan.key).id != job.id)
      ledger_.fail("idempotency key " + plan.key + " gave two jobs");
    JobConfig other = config_of(number);
    other.name += " changed";
    try {
      coordinator.submit(other, plan.key);
      ledger_.fail("idempotency key " + plan.key + " was taken with another configuration");
    } catch (const Error &error) {
      if (error.code() != ErrorCode::conflict) throw;
    }
    job.submitted_again = true;
  }
  if (plan.stopped && now >= *plan.stopped)
    end(number, job.stopped, "stop", [&](Id id) { coordinator.stop_job(id); });
  if (plan.cancelled && now >= *plan.cancelled)
    end(number, job.cancelled, "cancel", [&](Id id) { coordinator.cancel_job(id); });
}

void Operator::end(std::size_t number, bool &done, const char *what, const std::function<void(Id)> &call) {
  if (done) return;
  const Id id = jobs_[number].id;
  try {
    call(id);
    world_.trace(std::string("operator: ") + what + " job " + std::to_string(id));
    if (what == std::string("cancel") && ledger_.state_of(id) != JobState::cancelled)
      ledger_.fail("cancelling job " + std::to_string(id) + " was acknowledged and is not kept");
  } catch (const Error &error) {
    if (error.code() != ErrorCode::conflict) throw;
    const auto state = ledger_.state_of(id);
    if (!state || !is_terminal(*state))
      ledger_.fail("job " + std::to_string(id) + " is said to have ended and has not: " + error.message());
  }
  done = true;
}

bool Operator::is_done() const {
  for (std::size_t number = 0; number < jobs_.size(); ++number) {
    const JobProgress &job = jobs_[number];
    const JobPlan &plan = plan_.jobs[number];
    if (job.id == 0 || (plan.submitted_again && !job.submitted_again)) return false;
    const auto state = ledger_.state_of(job.id);
    if (!state || !is_terminal(*state)) return false;
  }
  return true;
}

void Operator::observe(Coordinator &coordinator) {
  if (!coordinator.failure().empty()) return;
  const bool anew = looks_anew_;
  try {
    for (std::size_t number = 0; number < jobs_.size(); ++number) {
      if (jobs_[number].id == 0) continue;
      if (anew) jobs_[number].last_event = 0;
      observe_job(number, coordinator);
    }
  } catch (const Error &error) {
    if (!may_pass(error)) ledger_.fail("an operator cannot look: " + error.message());
    return;
  }
  looks_anew_ = looks_anew_ && !anew;
  ++observations_;
}

void Operator::observe_job(std::size_t number, Coordinator &coordinator) {
  JobProgress &job = jobs_[number];
  const std::string who = "job " + std::to_string(job.id);
  JobStatus status = coordinator.job(job.id);
  const std::vector<Event> events = coordinator.events_after(job.id, job.last_event, kEventsAtOnce);
  // While the journal fails, what is seen may be more than what is kept.
  if (!coordinator.failure().empty()) return;
  for (const Event &event : events) {
    if (event.sequence <= job.last_event)
      ledger_.fail("event " + std::to_string(event.sequence) + " of " + who + " comes late");
    job.last_event = event.sequence;
    if (event.type == "worker_progress") continue;
    const std::string text = event.type + ": " + event.text;
    const auto [known, fresh] = job.events.try_emplace(event.sequence, text);
    if (!fresh && known->second != text) {
      ledger_.fail("event " + std::to_string(event.sequence) + " of " + who + " was \"" + known->second +
                   "\" and is \"" + text + "\"");
    }
  }
  // A job that ended stays as it is; who of its workers is live does not belong to it.
  status.workers.clear();
  if (!is_terminal(status.state)) {
    if (!job.final_document.empty()) ledger_.fail(who + " had ended and goes on");
    return;
  }
  const std::string document = wire::job_json(status);
  if (job.final_document.empty()) job.final_document = document;
  if (job.final_document != document)
    ledger_.fail(who + " has ended, and its document has changed from " + job.final_document + " to " +
                 document);
}

}  // namespace parsyn::sim
