// Workers, datasets and models: what is stored for them, and what is left when they are not registered after
// all.
#include <atomic>
#include <cstring>
#include <thread>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/eventually.hpp"
#include "support/objects.hpp"
#include "support/small_job.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// A journal whose disk a test fills.
class FullJournal final : public Journal {
 public:
  void commit(std::span<const JournalWrite> batch) override {
    if (full) throw Error(ErrorCode::unavailable, "no space left on device");
    inner_->commit(batch);
  }
  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    inner_->for_each(table, range, visit);
  }
  std::string failure() const override { return {}; }

  std::atomic<bool> full{false};

 private:
  std::shared_ptr<Journal> inner_ = make_memory_journal();
};

/// A store that takes so many further objects.
class FillingStore final : public ObjectStore {
 public:
  std::unique_ptr<ObjectWriter> create(std::string_view key) override {
    if (room == 0) throw Error(ErrorCode::unavailable, "no space left on device");
    --room;
    return inner_->create(key);
  }
  std::unique_ptr<ByteSource> open(std::string_view key) const override { return inner_->open(key); }
  ObjectInfo stat(std::string_view key) const override { return inner_->stat(key); }
  std::vector<std::string> list(std::string_view prefix) const override { return inner_->list(prefix); }
  void remove(std::string_view key) override { inner_->remove(key); }

  int room = 100;

 private:
  std::shared_ptr<ObjectStore> inner_ = make_memory_store();
};

CoordinatorOptions in_memory() {
  CoordinatorOptions options;
  options.store = make_memory_store();
  return options;
}

/// What outlives a coordinator.
CoordinatorOptions lasting() {
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.journal = make_memory_journal();
  return options;
}

ModelSpec named_model(const std::string &kind) {
  ModelSpec spec;
  spec.name = "model";
  spec.description.kind = kind;
  if (kind == "mlp") {
    spec.description.sizes = {1, 1};
    spec.description.loss = "mse";
  }
  return spec;
}

DatasetSpec dataset_of(const std::filesystem::path &train) {
  DatasetSpec spec;
  spec.name = "data";
  spec.train.emplace().path = train;
  return spec;
}

constexpr const char *kCsv = "a,label\n1,0\n2,1\n3,0\n4,1\n";

StateDict stored_weights(Coordinator &coordinator, const ModelInfo &model) {
  return read_safetensors(*coordinator.store().open(model.weights_key));
}

}  // namespace

TEST_CASE("while the journal takes nothing, registrations and jobs that are refused leave nothing stored") {
  const auto journal = std::make_shared<FullJournal>();
  CoordinatorOptions options;
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  Coordinator &coordinator = *small.coordinator;
  const Id mlp = coordinator.add_model(named_model("mlp")).id;
  const auto before = coordinator.store().list("");
  journal->full = true;
  std::thread waiting([&] { coordinator.add_worker({"a"}); });
  CHECK(eventually([&] { return !coordinator.failure().empty(); }));
  JobConfig config = small.config(1, 1);
  config.model_id = mlp;
  config.config.batch_size = 1;
  for (int tries = 0; tries < 3; ++tries) {
    CHECK(error_of([&] { coordinator.add_dataset("again", few_examples(4), few_examples(2)); }).code() ==
          ErrorCode::unavailable);
    CHECK(error_of([&] { coordinator.add_model(named_model("custom"), constant(1)); }).code() ==
          ErrorCode::unavailable);
    // Its weights are drawn from its seed, and stored before the journal is asked.
    CHECK(error_of([&] { coordinator.submit(config); }).code() == ErrorCode::unavailable);
  }
  CHECK(coordinator.store().list("") == before);
  journal->full = false;
  waiting.join();
  coordinator.add_dataset("again", few_examples(4), few_examples(2));
  coordinator.add_model(named_model("custom"), constant(1));
  coordinator.submit(config);
  CHECK(coordinator.store().list("").size() == before.size() + 4);
}

TEST_CASE("a dataset whose second part cannot be stored leaves nothing of its first") {
  const auto store = std::make_shared<FillingStore>();
  CoordinatorOptions options;
  options.store = store;
  const auto coordinator = make_coordinator(options);
  store->room = 1;
  CHECK(error_of([&] { coordinator->add_dataset("d", few_examples(4), few_examples(2)); }).code() ==
        ErrorCode::unavailable);
  CHECK(store->list("").empty());
  CHECK(coordinator->datasets().empty());
}

TEST_CASE("what a crash has left of a registration goes at the next start, whatever its number is") {
  const CoordinatorOptions options = lasting();
  SmallJob small(constant(0), 12, options);
  DatasetSpec local;
  local.name = "local";
  local.local = true;
  const Id with_workers = small.coordinator->add_dataset(local).id;
  const auto before = options.store->list("");
  small.coordinator.reset();
  // Killed between the objects and the commit; the numbers were never told to anyone.
  for (const std::string &key :
       {std::string("datasets/8/train.safetensors"), std::string("models/9/weights.safetensors"),
        std::string("models/9/module.pt"), std::string("jobs/7/rounds/0/global-0.safetensors"),
        // A number that is now a local dataset's has no training data here.
        "datasets/" + std::to_string(with_workers) + "/train.safetensors",
        "datasets/" + std::to_string(small.dataset) + "/validation.safetensors"}) {
    put(*options.store, key, "left behind");
  }
  put(*options.store, "datasets/notes/of-somebody", "not the coordinator's");
  small.coordinator = make_coordinator(options);
  options.store->remove("datasets/notes/of-somebody");
  CHECK(options.store->list("") == before);
  CHECK(small.coordinator->datasets().size() == 2);
}

TEST_CASE("half-precision weights are widened wherever they come from; float64 stays") {
  const std::vector<std::uint16_t> halves{0x3C00, 0xC000, 0x0001};  // 1, -2, 2^-24
  const std::vector<std::uint16_t> brains{0x3F80, 0xC000, 0x0080};  // 1, -2, 2^-126
  StateDict weights;
  weights["half"] = tensor_of(Dtype::f16, {3}, halves);
  weights["brain"] = tensor_of(Dtype::bf16, {3}, brains);
  weights["double"] = tensor_of<double>(Dtype::f64, {2}, {0.1, 1e300});
  weights["count"] = tensor_of<std::int64_t>(Dtype::i64, {}, {7});
  const TemporaryFolder folder;
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.torchscript_importer = [&](const std::filesystem::path &) { return weights; };
  const auto coordinator = make_coordinator(options);

  ModelInfo info;
  SECTION("given by a host") { info = coordinator->add_model(named_model("custom"), weights); }
  SECTION("in a file") {
    const std::vector<std::byte> file = file_of(weights);
    ModelSpec spec = named_model("custom");
    spec.path =
        folder.file("weights.safetensors", {reinterpret_cast<const char *>(file.data()), file.size()});
    info = coordinator->add_model(spec);
  }
  SECTION("in a scripted module, whatever the importer does") {
    ModelSpec spec = named_model("torchscript");
    spec.path = folder.file("module.pt", "the module as it is");
    info = coordinator->add_model(spec);
    CHECK(get(*options.store, info.description.module_key) == "the module as it is");
  }
  CHECK(info.num_parameters == 9);
  const StateDict stored = stored_weights(*coordinator, info);
  CHECK(f32_elements(stored.at("half")) == std::vector<float>{1, -2, 0x1p-24F});
  CHECK(f32_elements(stored.at("brain")) == std::vector<float>{1, -2, 0x1p-126F});
  CHECK(stored.at("double") == weights.at("double"));
  CHECK(stored.at("count") == weights.at("count"));
}

TEST_CASE("the same idempotency key makes one dataset and one model, over restarts too") {
  const TemporaryFolder folder;
  const CoordinatorOptions options = lasting();
  auto coordinator = make_coordinator(options);
  const DatasetSpec data = dataset_of(folder.file("data.csv", kCsv));
  const ModelSpec model = named_model("mlp");
  const Id data_id = coordinator->add_dataset(data, "key").id;
  const Id model_id = coordinator->add_model(model, "key").id;
  const bool restarts = GENERATE(false, true);
  if (restarts) {
    coordinator.reset();
    coordinator = make_coordinator(options);
  }
  CHECK(coordinator->add_dataset(data, "key").id == data_id);
  CHECK(coordinator->add_model(model, "key").id == model_id);
  DatasetSpec other_data = data;
  other_data.validation_fraction = 0.25;
  CHECK(error_of([&] { coordinator->add_dataset(other_data, "key"); }).code() == ErrorCode::conflict);
  ModelSpec other_model = model;
  other_model.name = "another";
  CHECK(error_of([&] { coordinator->add_model(other_model, "key"); }).code() == ErrorCode::conflict);
  CHECK(coordinator->datasets().size() == 1);
  CHECK(coordinator->models().size() == 1);
  // Without a key, and with another, the same request makes another one.
  CHECK(coordinator->add_dataset(data).id != data_id);
  CHECK(coordinator->add_model(model, "key 2").id != model_id);
}

TEST_CASE("two requests with one idempotency key at once make one dataset, and one copy of it") {
  const TemporaryFolder folder;
  CoordinatorOptions options;
  options.store = make_memory_store();
  const auto coordinator = make_coordinator(options);
  const DatasetSpec data = dataset_of(folder.file("data.csv", kCsv));
  // Each reads only when both are under way.
  std::atomic<int> reading{0};
  const auto add = [&](Id &id) {
    DatasetSpec spec = data;
    spec.cancelled = [&reading, met = false]() mutable {
      if (!std::exchange(met, true)) {
        ++reading;
        eventually([&] { return reading >= 2; });
      }
      return false;
    };
    id = coordinator->add_dataset(spec, "key").id;
  };
  Id one = 0;
  Id other = 0;
  std::thread first([&] { add(one); });
  std::thread second([&] { add(other); });
  first.join();
  second.join();
  CHECK(one == other);
  CHECK(coordinator->datasets().size() == 1);
  CHECK(options.store->list("").size() == 1);
}

TEST_CASE("a worker's token is told once: a repeat of its idempotency key is refused, and names the worker") {
  const CoordinatorOptions options = lasting();
  auto coordinator = make_coordinator(options);
  const WorkerCredentials made = coordinator->add_worker({"a"}, "key");
  const bool restarts = GENERATE(false, true);
  if (restarts) {
    coordinator.reset();
    coordinator = make_coordinator(options);
  }
  const Error error = error_of([&] { coordinator->add_worker({"a"}, "key"); });
  CHECK(error.code() == ErrorCode::conflict);
  CHECK(mentions(error, "worker " + std::to_string(made.worker.id)));
  CHECK_FALSE(mentions(error, made.token));
  CHECK(coordinator->workers().size() == 1);
  // Also after a session has rewritten what is kept of the worker.
  ManualWorker session(make_in_process_transport(coordinator->worker_service(), made.token));
  session.connect();
  coordinator.reset();
  coordinator = make_coordinator(options);
  CHECK(error_of([&] { coordinator->add_worker({"a"}, "key"); }).code() == ErrorCode::conflict);
  coordinator->remove_worker(made.worker.id);
  CHECK(coordinator->add_worker({"a"}, "key").worker.id == made.worker.id + 1);
}

TEST_CASE("reading a file ends when its caller gives up, in every format, and nothing is registered") {
  const TemporaryFolder folder;
  const StateDict tensors = few_examples(4).to_state_dict();
  const std::vector<std::byte> file = file_of(tensors);
  const std::string safetensors(reinterpret_cast<const char *>(file.data()), file.size());
  folder.file("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x07", 9));
  const std::pair<const char *, std::string> files[] = {
      {"data.csv", kCsv},
      {"data.jsonl", "{\"x\": [1], \"y\": 1}\n"},
      {"data.safetensors", safetensors},
      {"train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\x09", 17)}};
  const auto coordinator = make_coordinator(in_memory());
  for (const auto &[name, bytes] : files) {
    INFO(name);
    DatasetSpec spec = dataset_of(folder.file(name, bytes));
    spec.cancelled = [] { return false; };
    CHECK_NOTHROW(coordinator->add_dataset(spec));
    spec.cancelled = [] { return true; };
    CHECK(error_of([&] { coordinator->add_dataset(spec); }).code() == ErrorCode::cancelled);
  }
  CHECK(coordinator->datasets().size() == 4);
  CHECK(coordinator->store().list("").size() == 4);
}

TEST_CASE("a file that is being read, or stored, is given up when the coordinator stops") {
  const TemporaryFolder folder;
  const auto coordinator = make_coordinator(in_memory());
  const int pieces_before = GENERATE(1, 2, 3, 4);
  int asked = 0;
  const auto stops = [&] {
    if (++asked == pieces_before) coordinator->stop();
    return false;
  };
  SECTION("a dataset") {
    DatasetSpec spec = dataset_of(folder.file("data.csv", kCsv));
    spec.cancelled = stops;
    CHECK(error_of([&] { coordinator->add_dataset(spec); }).code() == ErrorCode::cancelled);
  }
  SECTION("a model") {
    ModelSpec spec = named_model("custom");
    const std::vector<std::byte> file = file_of(constant(1));
    spec.path =
        folder.file("weights.safetensors", {reinterpret_cast<const char *>(file.data()), file.size()});
    spec.cancelled = stops;
    CHECK(error_of([&] { coordinator->add_model(spec); }).code() == ErrorCode::cancelled);
  }
  // Nobody was asked again: the stop itself ended it at the next piece.
  CHECK(asked == pieces_before);
  CHECK(coordinator->store().list("").empty());
}
