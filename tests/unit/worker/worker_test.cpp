#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "parsyn/http.hpp"
#include "parsyn/worker.hpp"
#include "small_worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/loopback_serving.hpp"
#include "support/passing_transport.hpp"
#include "support/temporary_folder.hpp"
#include "worker/make_worker.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

constexpr std::chrono::seconds kPatience{20};

JobConfig with_steps(JobConfig config, std::uint32_t steps) {
  config.distributed->steps_per_round = steps;
  return config;
}

std::filesystem::perms mode_of(const std::filesystem::path &path) {
  return std::filesystem::status(path).permissions();
}

/// The operating system, when it gives only so many threads.
class FewThreads final : public system::Runtime {
 public:
  explicit FewThreads(int threads) : threads_(threads) {}

  Time now() const override { return below_.now(); }
  std::int64_t wall_ms() const override { return below_.wall_ms(); }
  std::string boot_id() const override { return below_.boot_id(); }
  std::string random_hex(std::size_t bytes) override { return below_.random_hex(bytes); }
  std::uint64_t random_u64() override { return below_.random_u64(); }
  std::unique_ptr<system::Thread> start(std::function<void()> body) override {
    if (threads_-- == 0) throw Error(ErrorCode::unavailable, "there is no thread left");
    return below_.start(std::move(body));
  }
  std::unique_ptr<system::Signal> make_signal() override { return below_.make_signal(); }

 private:
  system::Runtime &below_ = system::system_runtime();
  int threads_;
};

/// Notes the mode of the file that is uploaded.
class ModeTransport final : public PassingTransport {
 public:
  ModeTransport(std::unique_ptr<Transport> inner, std::filesystem::perms &mode)
      : PassingTransport(std::move(inner)), mode_(mode) {}
  void upload(const UploadSlot &slot, const std::filesystem::path &file,
              const TransferProgress &progress) override {
    mode_ = mode_of(file);
    PassingTransport::upload(slot, file, progress);
  }

 private:
  std::filesystem::perms &mode_;
};

}  // namespace

TEST_CASE("two workers train a job to its end, and the job says what they did") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  factory->loss = [](std::uint64_t step) { return 1.0 / static_cast<double>(step); };
  Worker a(options_for(small, factory, new_token(small)));
  Worker b(options_for(small, factory, new_token(small)));
  const Id job = small.coordinator->submit(with_steps(small.config(2, 2, 3), 4)).id;
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::completed);
  CHECK(small.value(job) == 3.0F);
  REQUIRE(status.rounds.size() == 3);
  for (const RoundRecord &record : status.rounds) {
    CHECK(record.train_loss == Approx((1 + 0.5 + 1.0 / 3 + 0.25) / 4));
    CHECK(record.examples == 12);
  }
  // Every loss of every step, by worker and round.
  const auto losses = small.coordinator->losses(job, 2U);
  REQUIRE(losses.size() == 2);
  for (const LossSeries &series : losses) {
    REQUIRE(series.losses.size() == 4);
    CHECK(series.losses[3] == std::pair<std::uint64_t, double>(4, 0.25));
  }
}

TEST_CASE(
    "the validation loss of a round is what the next round's workers measured, the last by a task of its "
    "own") {
  SmallJob small;
  small.dataset = small.coordinator->add_dataset("validated", few_examples(12), few_examples(5)).id;
  const auto factory = std::make_shared<CountingFactory>();
  Worker a(options_for(small, factory, new_token(small)));
  const Id job = small.coordinator->submit(small.config(1, 1, 3)).id;
  const JobStatus status = small.ended(job);
  CHECK(status.state == JobState::completed);
  REQUIRE(status.initial);
  CHECK(status.initial->loss == 0.0);
  REQUIRE(status.rounds.size() == 3);
  for (const RoundRecord &record : status.rounds) {
    REQUIRE(record.validation);
    CHECK(record.validation->loss == static_cast<double>(record.round));
    CHECK(record.validation->num_examples == 5);
    CHECK(record.contributions.at(0).own->loss == static_cast<double>(record.round));
  }
  REQUIRE(status.final_validation);
  CHECK(status.final_validation->loss == 3.0);
  CHECK(status.best_round == 1U);
  CHECK(small.value(job, BestRound{}) == 1.0F);
}

TEST_CASE("a trainer that throws fails the task with its sentence, and the worker goes on") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  std::atomic<int> tries{0};
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &) {
    if (tries++ == 0) throw std::runtime_error("the device fell off the bus");
  };
  Worker a(options_for(small, factory, new_token(small)));
  JobConfig config = small.config(1, 1, 1);
  config.distributed->fault_tolerance = 2;
  const JobStatus status = small.ended(small.coordinator->submit(config).id);
  CHECK(status.state == JobState::completed);
  CHECK(status.rounds.at(0).failed_attempts == 1);
  bool told = false;
  for (const Event &event : small.coordinator->events_after(status.id, 0, 1000)) {
    told = told || event.text.find("fell off the bus") != std::string::npos;
  }
  CHECK(told);
}

TEST_CASE("a worker that fails again and again leaves a pause before its next task") {
  using Clock = std::chrono::steady_clock;
  // Fails in its training, or because its report is not taken.
  const bool trains = GENERATE(false, true);
  class RefusingTransport final : public PassingTransport {
   public:
    using PassingTransport::PassingTransport;
    ReportReceipt report(const Report &report) override {
      if (report.failure.empty()) throw Error(ErrorCode::invalid_argument, "this report is not understood");
      return PassingTransport::report(report);
    }
  };
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  std::vector<Clock::time_point> tries;
  factory->before_step = [&](const RoundTask &, std::uint64_t step, TrainMonitor &) {
    if (step <= 1) tries.push_back(Clock::now());
    if (!trains) throw std::runtime_error("the device fell off the bus");
  };
  WorkerOptions options = options_for(small, factory, new_token(small));
  if (trains) options.transport = std::make_unique<RefusingTransport>(std::move(options.transport));
  options.backoff_max = std::chrono::milliseconds(200);
  Worker worker(std::move(options));
  JobConfig config = small.config(1, 1, 1);
  config.distributed->steps_per_round = 1;
  config.distributed->fault_tolerance = 3;
  CHECK(small.ended(small.coordinator->submit(config).id).state == JobState::failed);
  worker.stop();
  REQUIRE(tries.size() == 3);
  for (std::size_t i = 1; i < tries.size(); ++i)
    CHECK(tries[i] - tries[i - 1] >= std::chrono::milliseconds(100));
}

TEST_CASE(
    "a trainer that gives up as if it were cancelled fails the task, and is not asked again without end") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  std::atomic<int> tries{0};
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &) {
    ++tries;
    throw Error(ErrorCode::cancelled, "the host's own queue was emptied");
  };
  Worker a(options_for(small, factory, new_token(small)));
  JobConfig config = small.config(1, 1, 1);
  config.distributed->fault_tolerance = 1;
  const JobStatus status = small.ended(small.coordinator->submit(config).id);
  CHECK(status.state == JobState::failed);
  CHECK(tries == 1);
  bool told = false;
  for (const Event &event : small.coordinator->events_after(status.id, 0, 1000)) {
    told = told || event.text.find("queue was emptied") != std::string::npos;
  }
  CHECK(told);
}

TEST_CASE("a worker's cache stays within its bound over many jobs") {
  SmallJob small;
  TemporaryFolder cache;
  const auto factory = std::make_shared<CountingFactory>();
  WorkerOptions options = options_for(small, factory, new_token(small));
  options.cache = cache.path();
  options.cache_bytes_max = 2000;
  Worker worker(std::move(options));
  for (std::uint64_t examples = 10; examples < 30; ++examples) {
    small.dataset =
        small.coordinator->add_dataset("d" + std::to_string(examples), few_examples(examples), std::nullopt)
            .id;
    CHECK(small.ended(small.coordinator->submit(small.config(1, 1)).id).state == JobState::completed);
  }
  worker.stop();
  std::uint64_t bytes = 0;
  for (const auto &entry : std::filesystem::directory_iterator(cache.path() / "objects"))
    bytes += entry.file_size();
  CHECK(bytes > 0);
  CHECK(bytes <= 2000);
}

TEST_CASE("an upload that a killed process has left in the cache is removed at the next start") {
  SmallJob small;
  TemporaryFolder cache;
  std::filesystem::create_directories(cache.path() / "updates");
  const auto left = cache.path() / "updates" / "7.safetensors";
  std::ofstream(left) << "half a file";
  WorkerOptions options = options_for(small, std::make_shared<CountingFactory>(), new_token(small));
  options.cache = cache.path();
  Worker worker(std::move(options));
  CHECK(small.ended(small.coordinator->submit(small.config(1, 1)).id).state == JobState::completed);
  CHECK(!std::filesystem::exists(left));
}

TEST_CASE("fault 128, 140: losses that are not finite stop nothing and arrive as they are") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  const double infinity = std::numeric_limits<double>::infinity();
  factory->loss = [&](std::uint64_t step) {
    return step == 1 ? infinity : step == 2 ? -infinity : step == 3 ? std::nan("") : 0.5;
  };
  Worker a(options_for(small, factory, new_token(small)));
  const Id job = small.coordinator->submit(with_steps(small.config(1, 1), 4)).id;
  CHECK(small.ended(job).state == JobState::completed);
  const auto losses = small.coordinator->losses(job).at(0).losses;
  REQUIRE(losses.size() == 4);
  CHECK(losses[0].second == infinity);
  CHECK(losses[1].second == -infinity);
  CHECK(std::isnan(losses[2].second));
  CHECK(losses[3].second == 0.5);
}

TEST_CASE("a cancelled job reaches a worker in the middle of training") {
  CoordinatorOptions quick;
  quick.heartbeat_interval = std::chrono::milliseconds(20);
  quick.lease_duration = std::chrono::seconds(10);
  quick.progress_interval = std::chrono::milliseconds(5);
  SmallJob small(constant(0), 12, quick);
  const auto factory = std::make_shared<CountingFactory>();
  Gate in_training;
  std::atomic<bool> was_cancelled{false};
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &monitor) {
    in_training.open();
    while (!monitor.cancelled()) std::this_thread::yield();
    was_cancelled = true;
  };
  Worker a(options_for(small, factory, new_token(small)));
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  in_training.wait();
  small.coordinator->cancel_job(job);
  // The next job gets the worker: the task of the first one has been dropped.
  factory->before_step = nullptr;
  const Id next = small.coordinator->submit(small.config(1, 1)).id;
  CHECK(small.ended(next).state == JobState::completed);
  CHECK(was_cancelled);
}

TEST_CASE("stop ends a worker in the middle of training, and its lease at once") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  Gate gate;
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &monitor) {
    gate.open();
    while (!monitor.cancelled()) std::this_thread::yield();
  };
  Worker a(options_for(small, factory, new_token(small)));
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  gate.wait();
  const Id id = a.activity().worker_id;
  a.stop();
  CHECK(a.wait().empty());
  CHECK_FALSE(small.coordinator->worker(id).live);
  CHECK(small.coordinator->job(job).state == JobState::running);
}

TEST_CASE("stop ends a worker in the middle of an evaluation") {
  SmallJob small;
  small.dataset = small.coordinator->add_dataset("validated", few_examples(12), few_examples(5)).id;
  const auto factory = std::make_shared<CountingFactory>();
  Gate gate;
  factory->before_evaluation = [&](const TrainMonitor &monitor) {
    gate.open();
    while (!monitor.cancelled()) std::this_thread::yield();
  };
  Worker a(options_for(small, factory, new_token(small)));
  small.coordinator->submit(small.config(1, 1));
  gate.wait();
  a.stop();
  CHECK(a.wait().empty());
  CHECK(factory->rounds_trained == 0);
}

TEST_CASE("a worker whose cache cannot be made says so at once, in words of its own") {
  SmallJob small;
  TemporaryFolder cache;
  cache.file("objects", "a file where a folder must be");
  WorkerOptions options = options_for(small, std::make_shared<CountingFactory>(), new_token(small));
  options.cache = cache.path();
  const Error error = error_of([&] { const Worker worker(std::move(options)); });
  CHECK(error.code() == ErrorCode::io);
  CHECK(mentions(error, (cache.path() / "objects").string()));
}

TEST_CASE("a worker's cache is its own until it has stopped, and a second one touches nothing in it") {
  SmallJob small;
  TemporaryFolder cache;
  const auto options = [&] {
    WorkerOptions made = options_for(small, std::make_shared<CountingFactory>(), new_token(small));
    made.cache = cache.path();
    return made;
  };
  Worker first(options());
  std::filesystem::create_directories(cache.path() / "updates");
  const auto update = cache.file("updates/7.safetensors", "an upload of the first one");
  const Error error = error_of([&] { const Worker second(options()); });
  CHECK(error.code() == ErrorCode::conflict);
  CHECK(mentions(error, cache.path().string()));
  CHECK(std::filesystem::exists(update));
  first.stop();
  CHECK_NOTHROW(Worker(options()));
}

TEST_CASE("a worker that gets no threads is no worker, and leaves none behind") {
  SmallJob small;
  FewThreads runtime(GENERATE(0, 1));
  WorkerOptions options = options_for(small, std::make_shared<CountingFactory>(), new_token(small));
  const Error error = error_of([&] { worker::make_worker(std::move(options), runtime); });
  CHECK(error.code() == ErrorCode::unavailable);
  CHECK(mentions(error, "no thread left"));
}

TEST_CASE("what a worker keeps is its owner's alone") {
  using std::filesystem::perms;
  SmallJob small;
  TemporaryFolder folder;
  perms update{};
  WorkerOptions options = options_for(small, std::make_shared<CountingFactory>(), new_token(small));
  options.transport = std::make_unique<ModeTransport>(std::move(options.transport), update);
  options.cache = folder.path() / "workers" / "cache";
  const Worker worker(std::move(options));
  CHECK(small.ended(small.coordinator->submit(small.config(1, 1)).id).state == JobState::completed);
  CHECK(update == perms(0600));
  for (const char *made : {"workers", "workers/cache", "workers/cache/objects", "workers/cache/updates"}) {
    INFO(made);
    CHECK(mode_of(folder.path() / made) == perms(0700));
  }
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder.path() / "workers/cache/objects")) {
    CHECK(mode_of(entry.path()) == perms(0600));
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("a worker whose token is revoked, or whose place is taken, stops and says why") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  Worker stranger(options_for(small, factory, "no-such-token"));
  CHECK(stranger.wait_for(kPatience));
  CHECK(stranger.wait().find("token") != std::string::npos);

  const std::string token = new_token(small);
  Worker older(options_for(small, factory, token));
  while (!older.activity().connected) std::this_thread::yield();
  Worker newer(options_for(small, factory, token));
  CHECK(older.wait_for(kPatience));
  CHECK(older.wait().find("newer process") != std::string::npos);
  CHECK_FALSE(newer.wait_for(std::chrono::milliseconds(0)));
}

TEST_CASE("a worker waits for a coordinator that is away, goes on training, and reports when it is back") {
  SmallJob small;
  ServeOptions serve = loopback_serving();
  auto server = std::make_unique<CoordinatorServer>(*small.coordinator, serve);
  serve.port = server->port();

  const auto factory = std::make_shared<CountingFactory>();
  Gate in_training;
  Gate server_is_gone;
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &) {
    in_training.open();
    server_is_gone.wait();
  };
  WorkerOptions options;
  HttpTransportOptions transport;
  transport.url = server->url();
  transport.token = new_token(small);
  options.transport = make_http_transport(transport);
  options.trainer_factory = factory;
  options.backoff_first = std::chrono::milliseconds(5);
  options.backoff_max = std::chrono::milliseconds(20);
  std::atomic<int> told{0};
  Gate away;
  options.log = [&](const LogRecord &record) {
    if (record.id == "worker.coordinator_away" || record.id == "worker.transfer_broken") away.open();
    ++told;
  };
  Worker worker(std::move(options));
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  in_training.wait();
  server->stop();
  server.reset();
  server_is_gone.open();
  away.wait();  // training has ended, the update cannot be delivered, and the user is told
  server = std::make_unique<CoordinatorServer>(*small.coordinator, serve);
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 1.0F);
}

TEST_CASE("what was trained while the coordinator was started again is not trained once more") {
  CoordinatorOptions lasting;
  lasting.store = make_memory_store();
  lasting.journal = make_memory_journal();
  SmallJob small(constant(0), 12, lasting);
  ServeOptions serve = loopback_serving();
  auto server = std::make_unique<CoordinatorServer>(*small.coordinator, serve);
  serve.port = server->port();

  const auto factory = std::make_shared<CountingFactory>();
  Gate in_training;
  Gate started_again;
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &) {
    in_training.open();
    started_again.wait();
  };
  WorkerOptions options = options_for(small, factory, new_token(small));
  HttpTransportOptions transport;
  transport.url = server->url();
  transport.token = new_token(small);
  options.transport = make_http_transport(transport);
  const Worker worker(std::move(options));
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  in_training.wait();
  server.reset();
  small.coordinator.reset();
  small.coordinator = make_coordinator(lasting);
  server = std::make_unique<CoordinatorServer>(*small.coordinator, serve);
  started_again.open();
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 1.0F);
  CHECK(factory->rounds_trained == 1);
}

TEST_CASE("fault 48: ten workers, many short rounds: every round has every worker's update of that round") {
  SmallJob small(constant(0), 40);
  const auto factory = std::make_shared<CountingFactory>();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 10; ++i)
    workers.push_back(std::make_unique<Worker>(options_for(small, factory, new_token(small))));
  const Id job = small.coordinator->submit(small.config(10, 10, 50)).id;
  const JobStatus status = small.coordinator->wait(job, std::chrono::minutes(2));
  CHECK(status.state == JobState::completed);
  CHECK(small.value(job) == 50.0F);
  CHECK(factory->rounds_trained == 500);
}

TEST_CASE("data that stays with the worker is trained on, and only its size is told") {
  SmallJob small;
  small.use_local_data();
  const auto factory = std::make_shared<CountingFactory>();
  WorkerOptions options = options_for(small, factory, new_token(small));
  options.local_data["mine"] = std::make_shared<const Examples>(few_examples(37));
  Worker worker(std::move(options));
  const JobStatus status = small.ended(small.coordinator->submit(small.config(1, 1)).id);
  CHECK(status.state == JobState::completed);
  CHECK(status.rounds.at(0).examples == 37);
}
