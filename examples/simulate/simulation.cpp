#include "simulate/simulation.hpp"

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <semaphore>
#include <utility>
#include <variant>
#include <vector>

#include "parsyn/coordinator.hpp"
#include "parsyn/worker.hpp"
#include "simulate/model.hpp"

namespace simulate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kEventsAtOnce = 1000;

parsyn::DatasetSpec fashion_mnist(const std::filesystem::path &folder) {
  parsyn::DatasetSpec spec;
  spec.name = "fashion-mnist";
  spec.train.emplace().path = folder / "train-images-idx3-ubyte.gz";
  spec.validation.emplace().path = folder / "t10k-images-idx3-ubyte.gz";
  return spec;
}

parsyn::JobConfig job_config(const Options &options, std::uint64_t examples) {
  // An epoch over a partition of mean size; "even" and "shards" have no others.
  const std::uint64_t partition = (examples + options.workers - 1) / options.workers;
  const std::uint64_t steps =
      options.batch_size > 0 ? (partition + options.batch_size - 1) / options.batch_size : 0;
  parsyn::JobConfig job;
  job.name = "simulation";
  job.seed = options.seed;
  job.config.batch_size = options.batch_size;
  job.config.learning_rate = options.learning_rate;
  job.config.threads = 1;  // the cohort's workers share the cores
  job.distributed.emplace();
  job.distributed->num_rounds = options.rounds;
  job.distributed->steps_per_round = static_cast<std::uint32_t>(options.epochs * steps);
  // A round takes its whole cohort or fails, so that which workers took part is the seed's choice alone.
  job.distributed->min_workers = job.distributed->max_workers = options.cohort;
  job.distributed->aggregation_timeout = 3600;
  job.distributed->partitioning.kind = options.partition;
  job.worker_selection.mode = parsyn::SelectionMode::own;
  return job;
}

double number(const parsyn::Event &event, const std::string &field) {
  for (const auto &[name, value] : event.fields) {
    if (name != field) continue;
    if (const auto *whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    if (const auto *real = std::get_if<double>(&value)) return *real;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Turns the job's events into rows: how long a round took is told when it ends, how good its model is one
/// round later.
class RoundReporter {
 public:
  explicit RoundReporter(const std::function<void(const Round &)> &on_round) : on_round_(on_round) {}

  void take(const parsyn::Event &event) {
    const auto round = static_cast<std::uint32_t>(number(event, "round"));
    if (event.type == "round_completed") seconds_[round] = number(event, "seconds");
    if (event.type != "validation" || round == 0) return;  // round 0: the weights before any training
    on_round_({round, number(event, "loss"), number(event, "accuracy"), seconds_[round]});
  }

 private:
  const std::function<void(const Round &)> &on_round_;
  std::map<std::uint32_t, double> seconds_;
};

void follow(const parsyn::Coordinator &coordinator, parsyn::Id job, RoundReporter reporter) {
  std::counting_semaphore news(1);  // one permit: look at once
  const auto subscription = coordinator.subscribe(job, [&news] { news.release(); });
  std::uint64_t seen = 0;
  for (bool ended = false; !ended;) {
    news.acquire();
    // Asked before the events are read, so that the last of them are not missed.
    ended = parsyn::is_terminal(coordinator.job_state(job));
    for (;;) {
      const std::vector<parsyn::Event> events = coordinator.events_after(job, seen, kEventsAtOnce);
      if (events.empty()) break;
      seen = events.back().sequence;
      for (const parsyn::Event &event : events) reporter.take(event);
    }
  }
}

}  // namespace

Result run(const Options &options, const std::function<void(const Round &)> &on_round) {
  parsyn::CoordinatorOptions coordinator_options;
  coordinator_options.store = parsyn::make_memory_store();
  const auto coordinator = parsyn::make_coordinator(coordinator_options);
  const parsyn::DatasetInfo data = coordinator->add_dataset(fashion_mnist(options.data));
  const Model model = make_model();

  parsyn::JobConfig job = job_config(options, data.train->num_examples);
  job.dataset_id = data.id;
  job.model_id = (model.weights ? coordinator->add_model(model.spec, *model.weights)
                                : coordinator->add_model(model.spec))
                     .id;

  // The first round is drawn from the workers that are live then: all must be, for the same draw every time.
  std::counting_semaphore connected(0);
  std::vector<std::unique_ptr<parsyn::Worker>> workers;
  for (std::uint32_t i = 0; i < options.workers; ++i) {
    const parsyn::WorkerCredentials credentials =
        coordinator->add_worker({.name = "virtual-" + std::to_string(i + 1)});
    job.worker_selection.worker_ids.push_back(credentials.worker.id);
    parsyn::WorkerOptions worker;
    worker.transport = parsyn::make_in_process_transport(coordinator->worker_service(), credentials.token);
    worker.trainer_factory = model.trainer_factory;
    worker.log = [&connected](const parsyn::LogRecord &record) {
      if (record.id == "worker.connected") connected.release();
    };
    workers.push_back(std::make_unique<parsyn::Worker>(std::move(worker)));
  }
  for (std::uint32_t i = 0; i < options.workers; ++i) connected.acquire();

  const auto started = Clock::now();
  const parsyn::Id id = coordinator->submit(job).id;
  follow(*coordinator, id, RoundReporter(on_round));
  Result result;
  result.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  result.status = coordinator->job(id);
  result.model_sha256 = coordinator->job_model(id).sha256;
  return result;
}

}  // namespace simulate
