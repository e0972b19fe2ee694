// Of the simulator itself: one seed, one course of events; kills, clocks, waits; and the real drivers on it.
#include "sim/world.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/make_coordinator.hpp"
#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "parsyn/worker.hpp"
#include "sim/network.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"
#include "transport/make_http_transport.hpp"
#include "transport/routes.hpp"
#include "worker/make_worker.hpp"

using namespace parsyn;
using namespace parsyn::sim;

namespace {

/// Five threads that wait for each other in an order that the seed decides.
std::string order_of(std::uint64_t seed, std::uint64_t *digest = nullptr) {
  World world(seed);
  Machine machine(world, "a");
  std::string order;
  std::mutex mutex;
  const auto signal = machine.make_signal();
  int turn = 0;
  for (char name = 'a'; name < 'f'; ++name) {
    machine.start_process([&, name] {
      std::unique_lock lock(mutex);
      order += name;
      ++turn;
      signal->notify_all();
      signal->wait(lock, [&] { return turn == 5; });
      order += static_cast<char>(name - 'a' + 'A');
    });
  }
  CHECK(world.run(Time(1'000), [&] { return order.size() == 10; }));
  CHECK(world.now() == Time(0));
  if (digest) *digest = world.digest();
  return order;
}

}  // namespace

TEST_CASE("the same seed has the same course, another another") {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  CHECK(order_of(1, &first) == order_of(1, &second));
  CHECK(first == second);
  std::vector<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) orders.push_back(order_of(seed));
  std::sort(orders.begin(), orders.end());
  CHECK(std::unique(orders.begin(), orders.end()) - orders.begin() > 10);
}

TEST_CASE("time jumps from timer to timer") {
  World world(3);
  Machine machine(world, "a");
  std::vector<std::int64_t> times;
  for (const int ms : {300, 100, 200}) {
    machine.start_process([&, ms] {
      pass_time(world, Time(ms));
      times.push_back(world.now().count());
    });
  }
  world.at(Time(150), [&] { times.push_back(-world.now().count()); });
  CHECK_FALSE(world.run(Time(250), [] { return false; }));
  CHECK(world.now() == Time(250));
  CHECK(times == std::vector<std::int64_t>{100, -150, 200});
  world.run(Time(1'000), [&] { return times.size() == 4; });
  CHECK(world.now() == Time(300));
  CHECK_FALSE(machine.is_running());
}

TEST_CASE("a wait ends by its signal or at its time, whichever is first") {
  World world(4);
  Machine machine(world, "a");
  const auto signal = machine.make_signal();
  std::mutex mutex;
  bool rung = false;
  std::optional<bool> early;
  std::optional<bool> late;
  machine.start_process([&] {
    std::unique_lock lock(mutex);
    early = machine.wait_until(*signal, lock, machine.now() + Time(50), [&] { return rung; });
    CHECK(world.now() == Time(50));
    late = machine.wait_until(*signal, lock, machine.now() + Time(1'000), [&] { return rung; });
    CHECK(world.now() == Time(70));
  });
  machine.start_process([&] {
    pass_time(world, Time(70));
    const std::lock_guard lock(mutex);
    rung = true;
    signal->notify_all();
  });
  world.run(Time(5'000), [&] { return late.has_value(); });
  CHECK(early == false);
  CHECK(late == true);
}

TEST_CASE("a waiting thread keeps the exception that it handles") {
  World world(5);
  Machine machine(world, "a");
  std::string caught;
  for (const char *const name : {"a", "b", "c"}) {
    machine.start_process([&, name] {
      try {
        throw Error(ErrorCode::io, name);
      } catch (...) {
        pass_time(world, Time(name[0] == 'b' ? 30 : 10));
        try {
          throw;
        } catch (const Error &error) {
          caught += error.message() == name ? "=" : "!";
        }
      }
    });
  }
  CHECK(world.run(Time(100), [&] { return caught.size() == 3; }));
  CHECK(caught == "===");
}

TEST_CASE("what a thread lets through ends the run") {
  World world(6);
  Machine machine(world, "a");
  machine.start_process([] { throw Error(ErrorCode::io, "the disk burns"); });
  CHECK_THROWS_WITH(world.run(Time(1), [] { return false; }), "a thread of a threw: the disk burns");
}

TEST_CASE("a killed process does nothing more, not even clean up") {
  World world(7);
  Machine machine(world, "a");
  struct Loud {
    ~Loud() { ++*count; }
    int *count;
  };
  int destroyed = 0;
  int ticks = 0;
  int told = 0;
  machine.start_process([&] {
    const Loud loud{&destroyed};
    const auto thread = machine.start([&] {
      const Loud another{&destroyed};
      for (;;) {
        pass_time(world, Time(10));
        ++ticks;
      }
    });
  });
  machine.at_kill([&] { ++told; });
  world.at(Time(55), [&] { machine.kill(); });
  world.run(Time(200), [] { return false; });
  CHECK(ticks == 5);
  CHECK(destroyed == 0);
  CHECK(told == 1);
  CHECK_FALSE(machine.is_running());

  // The machine goes on with the next process, and that one may kill itself.
  bool returned = false;
  machine.start_process([&] {
    pass_time(world, Time(10));
    machine.kill();
    returned = true;
  });
  CHECK(machine.is_running());
  world.run(Time(400), [] { return false; });
  CHECK_FALSE(machine.is_running());
  CHECK_FALSE(returned);
  CHECK(told == 1);
}

TEST_CASE("clocks: set, and anew after a boot") {
  World world(8);
  Machine machine(world, "a");
  world.run(Time(1'000), [] { return false; });
  const std::string boot = machine.boot_id();
  const Time uptime = machine.now();
  const std::int64_t wall = machine.wall_ms();
  CHECK(uptime >= Time(1'000));
  machine.set_wall_clock(-3'600'000);
  CHECK(machine.wall_ms() == wall - 3'600'000);
  CHECK(machine.now() == uptime);
  world.run(Time(3'000), [] { return false; });
  CHECK(machine.now() == uptime + Time(2'000));
  CHECK(machine.boot_id() == boot);
  machine.reboot();
  CHECK(machine.now() == Time(0));
  CHECK(machine.boot_id() != boot);
}

TEST_CASE("time that stands still for ever is found out") {
  World world(9);
  Machine machine(world, "a");
  machine.start_process([&] {
    for (;;) pass_time(world, Time(0));
  });
  CHECK_THROWS_WITH(world.run(Time(1), [] { return false; }), "time stands still, and still there is work");
}

namespace {

struct Course {
  std::uint64_t digest = 0;
  std::uint64_t trained = 0;
  std::string state;
  std::vector<float> weights;
};

/// A job of three rounds with two workers over a network with these faults.
Course run_job(std::uint64_t seed, const Network::Faults &faults) {
  const test::TemporaryFolder disks("/dev/shm");
  World world(seed);
  Network network(world);
  network.set_faults(faults);
  Machine coordinator_machine(world, "coordinator");
  Machine worker_machines[] = {{world, "worker-1"}, {world, "worker-2"}};
  const auto factory = std::make_shared<test::CountingFactory>();
  factory->before_step = [&](const RoundTask &, std::uint64_t, TrainMonitor &) {
    pass_time(world, Time(100));
  };
  Course course;
  bool ended = false;

  // As under a supervisor: a worker that has ended by itself is started anew.
  const auto work = [&](Machine &machine, const std::string &name, const std::string &token) {
    while (!ended) {
      HttpTransportOptions transport;
      transport.url = "https://coordinator";
      transport.token = token;
      WorkerOptions options;
      options.transport = transport::make_http_transport(
          transport,
          [&](const http::HttpClientOptions &client) { return network.client(machine, name, client); });
      options.trainer_factory = factory;
      options.cache = disks.path() / name;
      const auto worker = worker::make_worker(std::move(options), machine);
      while (!ended && !worker->wait_for(std::chrono::milliseconds(500))) {
      }
      worker->stop();
    }
  };
  coordinator_machine.start_process([&] {
    CoordinatorOptions options;
    options.store = make_memory_store();
    options.threads = 2;
    const auto coordinator = coordinator::make_coordinator(options, coordinator_machine);
    const auto signer =
        std::make_shared<const transport::UrlSigner>(limits::kUrlLifetime, coordinator_machine);
    transport::PartialUploads uploads(coordinator->worker_service(), coordinator_machine);
    std::vector<http::Route> routes = transport::worker_routes(coordinator->worker_service(), signer);
    for (auto &route : transport::object_routes(coordinator->worker_service(), signer, uploads))
      routes.push_back(std::move(route));
    network.listen("coordinator", coordinator_machine, std::move(routes));
    for (Machine &machine : worker_machines) {
      const std::string name = &machine == worker_machines ? "worker-1" : "worker-2";
      machine.start_process(
          [&, name, token = coordinator->add_worker({.name = name}).token] { work(machine, name, token); });
    }
    JobConfig config;
    config.name = "small";
    config.dataset_id = coordinator->add_dataset("small", test::few_examples(12), std::nullopt).id;
    ModelSpec model;
    model.name = "small";
    model.description.kind = "custom";
    config.model_id = coordinator->add_model(model, test::constant(0)).id;
    config.distributed = DistributedConfig{};
    config.distributed->num_rounds = 3;
    config.distributed->steps_per_round = 2;
    config.distributed->min_workers = 2;
    config.distributed->max_workers = 2;
    config.distributed->aggregation_timeout = 600;
    config.distributed->fault_tolerance = 10;  // an upload with a flipped bit costs its round
    const Id job = coordinator->submit(config).id;
    const JobStatus status = coordinator->wait(job, std::chrono::hours(1));
    course.state = std::string(job_state_name(status.state));
    course.weights =
        f32_elements(read_safetensors(*coordinator->store().open(coordinator->job_model(job).key)).at("w"));
    ended = true;
    network.stop_listening("coordinator");
    coordinator->stop();
  });
  const auto nobody_runs = [&] {
    return !coordinator_machine.is_running() && !worker_machines[0].is_running() &&
           !worker_machines[1].is_running();
  };
  CHECK(world.run(std::chrono::hours(2), nobody_runs));
  course.trained = static_cast<std::uint64_t>(factory->rounds_trained);
  course.digest = world.digest();
  return course;
}

}  // namespace

TEST_CASE("a job with two workers over a network without faults") {
  const Course course = run_job(1, {});
  CHECK(course.state == "completed");
  CHECK(course.trained == 6);
  CHECK(course.weights == std::vector<float>(8, 3.0F));
}

TEST_CASE("a job with two workers over a network that loses and repeats") {
  Network::Faults faults;
  faults.delay_max = Time(50);
  faults.lose = 50;
  faults.cut = 50;
  faults.duplicate = 100;
  faults.corrupt = 50;
  faults.gateway = 50;
  faults.late = 10;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Course course = run_job(seed, faults);
    INFO("seed " << seed);
    CHECK(course.state == "completed");
    CHECK(course.weights == std::vector<float>(8, 3.0F));
    CHECK(run_job(seed, faults).digest == course.digest);
  }
}
