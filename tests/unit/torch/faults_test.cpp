// Public failure reports about training, each by its number. Those that need a module of a special kind stand
// beside its other tests.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

#include "parsyn/aggregator.hpp"
#include "parsyn/safetensors.hpp"
#include "support/catch.hpp"
#include "training_support.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("fault 57: two rounds see their examples in two orders, two runs in one, two workers in two") {
  // Steps too small to move an F32 weight: a loss names its example, and a sequence of losses the order.
  const Examples examples = many_labelled({24, 3}, 2);
  TrainerJob job = mlp_job({3, 2}, &examples);
  job.config.batch_size = 1;
  job.config.learning_rate = 1e-30;
  const StateDict start = initial_weights(job.model, 1);
  const auto order_of = [&](std::uint32_t round) {
    RecordingMonitor monitor;
    const std::uint64_t steps = examples.count();
    CHECK(trainer_for(job)->train(start, {round, steps, (round - 1) * steps}, monitor) == start);
    return monitor.losses;
  };
  const auto first = order_of(1);
  const auto second = order_of(2);
  CHECK(std::set<double>(first.begin(), first.end()).size() == examples.count());
  CHECK(first != second);
  CHECK(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
  CHECK(order_of(1) == first);
  CHECK(order_of(2) == second);
  job.worker_id = 2;
  CHECK(order_of(1) != first);
  job.worker_id = 1;
  job.seed = 8;
  CHECK(order_of(1) != first);
}

TEST_CASE("fault 68: steps beyond the data shuffle it anew, and every example has its turn") {
  const Examples examples = many_labelled({3, 2}, 2);
  TrainerJob job = mlp_job({2, 2}, &examples);
  job.config.batch_size = 1;
  job.config.learning_rate = 1e-30;
  RecordingMonitor monitor;
  trainer_for(job)->train(initial_weights(job.model, 1), {1, 60, 0}, monitor);
  REQUIRE(monitor.losses.size() == 60);
  std::set<std::vector<double>> orders;
  for (auto epoch = monitor.losses.begin(); epoch != monitor.losses.end(); epoch += 3) {
    CHECK(std::set<double>(epoch, epoch + 3).size() == 3);
    orders.insert({epoch, epoch + 3});
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("fault 86: weights that a trainer was given or gave are nobody's but the caller's") {
  const Examples examples = many_labelled({16, 4}, 2);
  TrainerJob job = mlp_job({4, 3, 2}, &examples, &examples);
  const auto expected = trained(job, initial_weights(job.model, 1), 3);

  auto trainer = trainer_for(job);
  auto global = std::make_unique<StateDict>(initial_weights(job.model, 1));
  RecordingMonitor monitor;
  // The host overwrites what it passed as soon as the call has returned, and frees it.
  StateDict first = trainer->train(*global, {1, 3, 0}, monitor);
  CHECK(*global == initial_weights(job.model, 1));
  for (auto &[name, tensor] : *global) std::ranges::fill(tensor.data, std::byte{0xFF});
  global.reset();
  CHECK(first == expected);
  // More work, and the trainer's end, leave what it returned before.
  trainer->evaluate(first, RecordingMonitor());
  const StateDict second = trainer->train(first, {2, 3, 3}, monitor);
  CHECK(first == expected);
  CHECK(second != first);
  trainer.reset();
  CHECK(first == expected);

  MemorySink sink;
  write_safetensors(first, sink);
  for (auto &[name, tensor] : first) std::ranges::fill(tensor.data, std::byte{0xFF});
  first.clear();
  const MemorySource update(sink.bytes());
  InlineExecutor executor;
  MemorySink mean;
  FedAvgAggregator().aggregate(specs_of(expected), {{1, 16, &update}, {2, 16, &update}}, executor, mean);
  CHECK(read_safetensors(MemorySource(mean.bytes())) == expected);
}

TEST_CASE("fault 88: a round that is begun a hundred times has one optimiser's state each time") {
  const Examples examples = many_labelled({16, 4}, 2);
  TrainerJob job = mlp_job({4, 3, 2}, &examples);
  job.config.optimizer = Optimizer::adamw;
  const StateDict start = initial_weights(job.model, 1);
  const auto trainer = trainer_for(job);
  RecordingMonitor monitor;
  const StateDict once = trainer->train(start, {1, 3, 0}, monitor);
  CHECK(once != start);
  for (int i = 0; i < 100; ++i) CHECK(trainer->train(start, {1, 3, 0}, monitor) == once);
}

TEST_CASE("fault 137: training in a child of fork is refused at once, and the parent trains on") {
  const Examples examples = many_labelled({64, 4}, 2);
  TrainerJob job = mlp_job({4, 2}, &examples);
  job.config.threads = 2;
  const StateDict start = initial_weights(job.model, 1);
  const auto trainer = trainer_for(job);
  RecordingMonitor monitor;
  const StateDict once = trainer->train(start, {1, 1, 0}, monitor);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ErrorCode step{};
    ErrorCode made{};
    RecordingMonitor own;
    error_of([&] { trainer->train(start, {1, 1, 0}, own); }, step);
    error_of([&] { trainer_for(job); }, made);
    ::_exit(step == ErrorCode::unsupported && made == ErrorCode::unsupported ? 0 : 1);
  }
  int status = -1;
  pid_t ended = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while ((ended = ::waitpid(child, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  CHECK(ended == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(trainer->train(start, {1, 1, 0}, monitor) == once);
}
