// Public failure reports about fork(): a child inherits memory, and neither the threads nor a way to unlock
// what they held.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/loopback_serving.hpp"
#include "support/small_job.hpp"

// AddressSanitizer's allocator is left locked in a child when another thread was in it (before GCC 14).
#if !defined(__SANITIZE_ADDRESS__)

using namespace parsyn;
using namespace parsyn::test;

namespace {

constexpr unsigned kChildSeconds = 5;

/// What the child's exit code says of `body`: 0 where it returned true within five seconds.
int in_child(const std::function<bool()> &body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kChildSeconds);  // ends a child that hangs
    int code = 1;
    try {
      code = body() ? 0 : 2;
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool is_refused(const std::function<void()> &call) {
  try {
    call();
    return false;
  } catch (const Error &error) {
    return error.code() == ErrorCode::unsupported && error.message().find("fork()") != std::string::npos;
  }
}

/// A host with everything that runs threads.
struct Host {
  std::shared_ptr<CountingFactory> factory = std::make_shared<CountingFactory>();
  std::unique_ptr<SmallJob> small = std::make_unique<SmallJob>();
  std::unique_ptr<CoordinatorServer> server;
  std::unique_ptr<Worker> worker;

  Host() {
    server = std::make_unique<CoordinatorServer>(*small->coordinator, loopback_serving());
    HttpTransportOptions transport;
    transport.url = server->url();
    transport.token = small->coordinator->add_worker({"w", WorkerKind::own}).token;
    WorkerOptions options;
    options.transport = make_http_transport(transport);
    options.trainer_factory = factory;
    worker = std::make_unique<Worker>(std::move(options));
  }

  /// What a host's child may try.
  bool is_refused_everywhere() {
    Coordinator &coordinator = *small->coordinator;
    const auto transport = make_in_process_transport(coordinator.worker_service(), "token");
    return is_refused([&] { coordinator.submit(small->config(1, 1)); }) &&
           is_refused([&] { coordinator.wait(1, std::chrono::seconds(60)); }) &&
           is_refused([&] { coordinator.job(1); }) && is_refused([&] { coordinator.workers(); }) &&
           is_refused([&] {
             coordinator.add_worker({"x", WorkerKind::own});
           }) &&
           is_refused([&] { transport->open_session({}); }) && is_refused([&] { worker->activity(); }) &&
           is_refused([&] { worker->wait(); }) &&
           is_refused([&] { worker->wait_for(std::chrono::seconds(60)); });
  }
  void destroy() {
    worker->stop();
    server->stop();
    small->coordinator->stop();
    worker.reset();
    server.reset();
    small.reset();
  }
};

}  // namespace

TEST_CASE("fault 137: in a child of fork() everything is refused at once, and the parent goes on") {
  Host host;
  const Id first = host.small->coordinator->submit(host.small->config(1, 1)).id;
  REQUIRE(host.small->ended(first).state == JobState::completed);
  CHECK(in_child([&] { return host.is_refused_everywhere(); }) == 0);
  CHECK(in_child([&] {
          host.destroy();
          return true;
        }) == 0);

  const Id second = host.small->coordinator->submit(host.small->config(1, 1, 2)).id;
  CHECK(host.small->ended(second).state == JobState::completed);
  CHECK(host.small->value(second) == 2);
  host.destroy();
}

TEST_CASE("fault 137: whenever a host forks, also in the middle of a job") {
  Host host;
  constexpr std::uint32_t kRounds = 20;
  const Id job = host.small->coordinator->submit(host.small->config(1, 1, kRounds)).id;
  int forks = 0;
  do {
    ++forks;
    REQUIRE(in_child([&] {
              const bool refused = host.is_refused_everywhere();
              host.destroy();
              return refused;
            }) == 0);
  } while (!is_terminal(host.small->coordinator->job_state(job)) && forks < 200);
  CHECK(host.small->ended(job).state == JobState::completed);
  CHECK(host.small->value(job) == kRounds);
}

// ThreadSanitizer allows no new thread in a child of a process that had several.
#if !defined(__SANITIZE_THREAD__)
TEST_CASE("fault 137: a child may run a coordinator of its own") {
  Host host;
  CHECK(in_child([] {
          SmallJob small;
          ManualWorker worker = ManualWorker::join(*small.coordinator);
          const Id job = small.coordinator->submit(small.config(1, 1)).id;
          worker.train(worker.task(), constant(3));
          return small.ended(job).state == JobState::completed && small.value(job) == 3;
        }) == 0);
}
#endif  // __SANITIZE_THREAD__

#endif  // __SANITIZE_ADDRESS__
