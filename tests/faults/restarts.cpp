// Public failure reports about restarts and state, by their numbers, with a real journal and a real store.
#include "parsyn/journal.hpp"
#include "support/catch.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// A state folder, and the options of a coordinator in it.
class StateOnDisk {
 public:
  CoordinatorOptions options() const {
    CoordinatorOptions options;
    options.store = make_file_store(folder_.path() / "objects");
    options.journal = make_sqlite_journal({.file = folder_.path() / "journal.sqlite", .vfs = {}, .log = {}});
    options.join_window = std::chrono::milliseconds(0);
    return options;
  }
  const std::filesystem::path &path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

/// Trains rounds `from` to `to`: each worker returns the global model plus one.
void train_rounds(std::vector<ManualWorker> &workers, std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t round = from; round <= to; ++round) {
    for (ManualWorker &worker : workers) {
      const Task task = worker.task();
      CHECK(task.round == round);
      worker.train(task, constant(f32_elements(worker.weights(task).at("w")).at(0) + 1));
    }
  }
}

}  // namespace

TEST_CASE("fault 45: two coordinators on one state, or one store, are refused by name") {
  StateOnDisk state;
  const auto first = make_coordinator(state.options());
  SECTION("one journal") {
    try {
      state.options();
      FAIL("a second journal was opened");
    } catch (const Error &error) {
      CHECK(error.code() == ErrorCode::conflict);
      CHECK(error.message().find("coordinator") != std::string::npos);
    }
  }
  SECTION("one store") {
    first->add_dataset("small", few_examples(3), std::nullopt);
    StateOnDisk other;
    CoordinatorOptions options = other.options();
    options.store = make_file_store(state.path() / "objects");
    try {
      make_coordinator(options);
      FAIL("a second coordinator started on the store");
    } catch (const Error &error) {
      CHECK(error.code() == ErrorCode::conflict);
      CHECK(error.message().find("another coordinator") != std::string::npos);
    }
  }
}

TEST_CASE(
    "fault 50: a coordinator that is stopped after round 3 of 5 goes on with round 4, to the same model") {
  const auto run = [](bool restarts) {
    StateOnDisk state;
    auto small = std::make_unique<SmallJob>(constant(0), 12, state.options());
    std::vector<ManualWorker> workers = small->join(2);
    const Id job = small->coordinator->submit(small->config_for(workers, 2, 5)).id;
    train_rounds(workers, 1, 3);
    std::unique_ptr<Coordinator> coordinator = std::move(small->coordinator);
    if (restarts) {
      const Task open = workers[0].task();
      CHECK(open.round == 4);
      coordinator.reset();
      coordinator = make_coordinator(state.options());
      for (ManualWorker &worker : workers) worker.reach(*coordinator);
      CHECK(coordinator->job(job).round == 4);
    }
    train_rounds(workers, 4, 5);
    const JobStatus status = coordinator->wait(job, std::chrono::seconds(20));
    CHECK(status.state == JobState::completed);
    CHECK(status.rounds.size() == 5);
    return status.rounds.back().model_sha256;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("fault 84: what a crash has left half-written is never gone on from") {
  StateOnDisk state;
  auto small = std::make_unique<SmallJob>(constant(0), 12, state.options());
  std::vector<ManualWorker> workers = small->join(1);
  const Id job = small->coordinator->submit(small->config_for(workers, 1, 3)).id;
  train_rounds(workers, 1, 2);
  workers[0].task();
  std::unique_ptr<Coordinator> coordinator = std::move(small->coordinator);
  coordinator.reset();
  // A crash during the commit of round 3: its model cut in the middle, under the name that it will have.
  const std::filesystem::path folder =
      state.path() / "objects" / "jobs" / std::to_string(job) / "rounds" / "3";
  std::filesystem::create_directories(folder);
  system::write_text_file(folder / "global-3.safetensors", "half of a mod");
  coordinator = make_coordinator(state.options());
  workers[0].reach(*coordinator);
  const JobStatus status = coordinator->job(job);
  CHECK(status.round == 3);
  CHECK(status.rounds.size() == 2);
  train_rounds(workers, 3, 3);
  CHECK(coordinator->wait(job, std::chrono::seconds(20)).state == JobState::completed);
  const ObjectInfo model = coordinator->job_model(job);
  CHECK(f32_elements(read_safetensors(*coordinator->store().open(model.key)).at("w")).at(0) == 3.0F);
}

TEST_CASE("fault 42: a job that has failed stays failed over restarts, and is so at once") {
  StateOnDisk state;
  auto small = std::make_unique<SmallJob>(constant(0), 12, state.options());
  std::vector<ManualWorker> workers = small->join(2);
  JobConfig config = small->config_for(workers, 2, 5);
  config.distributed->aggregation_timeout = 1;
  const Id job = small->coordinator->submit(config).id;
  workers[0].train(workers[0].task(), constant(1));
  const JobStatus failed = small->coordinator->wait(job, std::chrono::seconds(20));
  CHECK(failed.state == JobState::failed);
  std::unique_ptr<Coordinator> coordinator = std::move(small->coordinator);
  for (int restart = 0; restart < 3; ++restart) {
    coordinator.reset();
    coordinator = make_coordinator(state.options());
    const JobStatus status = coordinator->job(job);
    CHECK(status.state == JobState::failed);
    CHECK(status.reason == failed.reason);
    CHECK(status.ended_ms == failed.ended_ms);
  }
}
