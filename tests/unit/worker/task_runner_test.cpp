#include "worker/task_runner.hpp"

#include "parsyn/safetensors.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;
using parsyn::worker::ProgressBoard;
using parsyn::worker::TaskRunner;
using parsyn::worker::TaskRunnerOptions;

namespace {

/// A runner whose objects are one set of weights, and whose data is its own.
class Fixture {
 public:
  Fixture() {
    MemorySink sink;
    write_safetensors(constant(0), sink);
    weights_.assign(reinterpret_cast<const char *>(sink.bytes().data()), sink.bytes().size());
    data_["mine"] = std::make_shared<const Examples>(few_examples(4));
    TaskRunnerOptions options;
    options.cache = folder.path();
    options.cache_bytes_max = 1 << 20;
    options.trainer_factory = &factory;
    options.local_data = &data_;
    options.download = [this](const ObjectRef &, const std::filesystem::path &file) {
      system::write_text_file(file, weights_);
    };
    options.upload = [](const UploadSlot &, const std::filesystem::path &) {};
    runner_ = std::make_unique<TaskRunner>(std::move(options), board_);
  }

  Report run(Id job) {
    Task task;
    task.task_id = ++tasks_;
    task.job_id = job;
    task.round = 1;
    task.num_rounds = 1;
    task.steps = 1;
    task.model.kind = "custom";
    task.local_dataset = "mine";
    task.global = {"weights", weights_.size(), system::sha256_hex(weights_), ""};
    task.upload = UploadSlot{"update", 1 << 20, ""};
    board_.begin(task);
    return runner_->run(task, 7);
  }

  CountingFactory factory;
  TemporaryFolder folder;

 private:
  std::string weights_;
  std::map<std::string, std::shared_ptr<const Examples>> data_;
  ProgressBoard board_{system::system_runtime()};
  std::unique_ptr<TaskRunner> runner_;
  std::uint64_t tasks_ = 0;
};

}  // namespace

TEST_CASE("of the jobs whose trainers are kept, the one goes that was used longest ago") {
  Fixture fixture;
  for (const Id job : {1, 2, 1, 3, 1}) CHECK(fixture.run(job).failure.empty());
  CHECK(fixture.factory.trainers_made == 3);
  fixture.run(2);  // it had to go for job 3
  CHECK(fixture.factory.trainers_made == 4);
}

TEST_CASE("a trainer that has failed is not used again") {
  Fixture fixture;
  CHECK(fixture.run(1).failure.empty());
  fixture.factory.before_step = [](const RoundTask &, std::uint64_t, TrainMonitor &) {
    throw std::runtime_error("out of memory");
  };
  CHECK(fixture.run(1).failure.find("out of memory") != std::string::npos);
  fixture.factory.before_step = nullptr;
  CHECK(fixture.run(1).failure.empty());
  CHECK(fixture.factory.trainers_made == 2);
}

TEST_CASE("a worker whose cache is removed under it goes on") {
  Fixture fixture;
  CHECK(fixture.run(1).failure.empty());
  std::filesystem::remove_all(fixture.folder.path());
  CHECK(fixture.run(1).failure.empty());
}
