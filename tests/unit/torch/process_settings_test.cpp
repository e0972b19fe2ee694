// libtorch's settings belong to the host's process: a trainer borrows them.
#include <fstream>
#include <future>
#include <latch>
#include <sstream>
#include <utility>

#include "scripted_modules.hpp"
#include "support/catch.hpp"
#include "torch/blas_check.hpp"
#include "training_support.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("fault 138: the host's number of threads is the same after training as before") {
  const Examples examples = many_labelled({32, 4}, 2);
  TrainerJob job = mlp_job({4, 2}, &examples, &examples);
  const StateDict start = initial_weights(job.model, 1);
  const int former = host_threads();
  set_host_threads(2);
  RecordingMonitor monitor;
  std::vector<int> inside;
  monitor.on_step = [&] { inside.push_back(host_threads()); };
  const auto trainer = trainer_for(job);
  trainer->train(start, {1, 2, 0}, monitor);
  CHECK(inside == std::vector<int>{1, 1});
  CHECK(host_threads() == 2);
  trainer->evaluate(start, RecordingMonitor());
  CHECK(host_threads() == 2);
  RecordingMonitor cancelled;
  cancelled.steps_until_cancelled = 0;
  CHECK_THROWS_AS(trainer->train(start, {1, 2, 0}, cancelled), Error);
  CHECK(host_threads() == 2);
  set_host_threads(former);
}

TEST_CASE(
    "fault 138: four workers of one process train side by side, and leave the host's number of threads") {
  const Examples examples = many_labelled({32, 4}, 2);
  const StateDict start = initial_weights(mlp_job({4, 2}, nullptr).model, 1);
  const int former = host_threads();
  set_host_threads(2);
  std::latch all_inside(4);
  std::vector<std::future<StateDict>> results;
  for (Id worker = 1; worker <= 4; ++worker)
    results.push_back(std::async(std::launch::async, [&, worker] {
      TrainerJob job = mlp_job({4, 2}, &examples);
      job.worker_id = worker;
      job.config.batch_size = 8;
      RecordingMonitor monitor;
      // Passes only when the four are in their first step at the same time.
      monitor.on_step = [&, first = true]() mutable {
        if (std::exchange(first, false)) all_inside.arrive_and_wait();
      };
      return trainer_for(job)->train(start, {1, 10, 0}, monitor);
    }));
  for (Id worker = 1; worker <= 4; ++worker) {
    TrainerJob job = mlp_job({4, 2}, &examples);
    job.worker_id = worker;
    job.config.batch_size = 8;
    const StateDict together = results[worker - 1].get();
    CHECK(together == trained(job, start, 10));
  }
  CHECK(host_threads() == 2);
  CHECK(std::async(std::launch::async, host_threads).get() == 2);
  set_host_threads(former);
}

TEST_CASE("A trainer that wants another number of threads waits its turn, and can be cancelled meanwhile") {
  const Examples examples = many_labelled({32, 4}, 2);
  TrainerJob job = mlp_job({4, 2}, &examples);
  const StateDict start = initial_weights(job.model, 1);
  const auto trainer = trainer_for(job);
  job.config.threads = 2;
  const auto other = trainer_for(job);
  RecordingMonitor outer;
  outer.on_step = [&] {
    RecordingMonitor waiting;
    waiting.steps_until_cancelled = 0;
    ErrorCode code{};
    std::async(std::launch::async, [&] {
      const std::string message = error_of([&] { other->train(start, {1, 1, 0}, waiting); }, code);
      CHECK(contains(message, "waited for its turn"));
    }).get();
    CHECK(code == ErrorCode::cancelled);
    CHECK(waiting.steps.empty());
  };
  trainer->train(start, {1, 1, 0}, outer);
  CHECK(outer.steps.size() == 1);
  RecordingMonitor inner;
  std::vector<int> inside;
  inner.on_step = [&] { inside.push_back(host_threads()); };
  other->train(start, {1, 1, 0}, inner);
  CHECK(inside == std::vector<int>{2});
}

TEST_CASE("An evaluation ends when it is cancelled, between its batches and while it waits its turn") {
  const Examples examples = many_labelled({5000, 4}, 2);
  TrainerJob job = mlp_job({4, 2}, &examples, &examples);
  const StateDict start = initial_weights(job.model, 1);
  const auto trainer = trainer_for(job);
  class Impatient final : public TrainMonitor {
   public:
    void step_done(std::uint64_t, double, std::uint64_t) override {}
    bool cancelled() const override { return ++asked > 2; }
    mutable int asked = 0;
  };
  const Impatient impatient;
  ErrorCode code{};
  CHECK(contains(error_of([&] { trainer->evaluate(start, impatient); }, code), "of 5000 examples"));
  CHECK(code == ErrorCode::cancelled);
  CHECK(impatient.asked == 3);
  CHECK(trainer->evaluate(start, RecordingMonitor()).num_examples == 5000);

  job.config.threads = 2;
  const auto other = trainer_for(job);
  RecordingMonitor outer;
  outer.on_step = [&] {
    RecordingMonitor waiting;
    waiting.steps_until_cancelled = 0;
    std::string message;
    std::async(std::launch::async, [&] {
      message = error_of([&] { other->evaluate(start, waiting); }, code);
    }).get();
    CHECK(contains(message, "waited for its turn"));
    CHECK(code == ErrorCode::cancelled);
  };
  trainer->train(start, {1, 1, 0}, outer);
  CHECK(outer.steps.size() == 1);
}

TEST_CASE("The pthread build of OpenBLAS is reported, the OpenMP build is not") {
  std::istringstream openmp(
      "7f00-7f01 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblasp-r0.3.21.so\n");
  CHECK(torch::blas_warning_of(openmp).empty());
  std::istringstream pthread(
      "7f00-7f01 rw-p 00000000 00:00 0 \n"
      "7f00-7f01 r-xp 00000000 fe:00 12 "
      "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so\n");
  const std::string warning = torch::blas_warning_of(pthread);
  CHECK(contains(warning, "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"));
  CHECK(contains(warning, "libopenblas0-openmp"));
  std::ostringstream text;
  text << std::ifstream("/proc/self/maps").rdbuf();
  CHECK(blas_warning().empty() == !contains(text.str(), "openblas-pthread"));
}
