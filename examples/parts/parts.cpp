// A host that takes parsyn's parts alone: no Coordinator, no Worker, no thread, and the host's own storage
// and clock.
//
// Three workers each know some numbers, and one round finds the mean of all that took part. It shows what
// each part asks for: a Partitioner wants counts and a seed, a Round wants events and the time, an Aggregator
// wants bytes.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/run_example.hpp"
#include "parsyn/aggregator.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/partitioner.hpp"
#include "parsyn/round.hpp"
#include "parsyn/safetensors.hpp"

namespace {

constexpr std::uint64_t kExamples = 10;
constexpr std::uint32_t kWorkers = 3;

/// The host's storage: whatever implements ObjectStore will do. This one lies over another and counts what is
/// stored.
class MeteredStore final : public parsyn::ObjectStore {
 public:
  explicit MeteredStore(std::shared_ptr<parsyn::ObjectStore> below) : below_(std::move(below)) {}

  std::unique_ptr<parsyn::ObjectWriter> create(std::string_view key) override {
    return std::make_unique<Writer>(below_->create(key), bytes_stored_);
  }
  std::unique_ptr<parsyn::ByteSource> open(std::string_view key) const override { return below_->open(key); }
  parsyn::ObjectInfo stat(std::string_view key) const override { return below_->stat(key); }
  std::vector<std::string> list(std::string_view prefix) const override { return below_->list(prefix); }
  void remove(std::string_view key) override { below_->remove(key); }

  std::uint64_t bytes_stored() const { return bytes_stored_; }

 private:
  class Writer final : public parsyn::ObjectWriter {
   public:
    Writer(std::unique_ptr<parsyn::ObjectWriter> below, std::uint64_t &bytes_stored)
        : below_(std::move(below)), bytes_stored_(bytes_stored) {}
    void write(std::span<const std::byte> bytes) override { below_->write(bytes); }
    parsyn::ObjectInfo commit() override {
      parsyn::ObjectInfo info = below_->commit();
      bytes_stored_ += info.bytes;  // an object counts once it is visible
      return info;
    }

   private:
    std::unique_ptr<parsyn::ObjectWriter> below_;
    std::uint64_t &bytes_stored_;
  };

  std::shared_ptr<parsyn::ObjectStore> below_;
  std::uint64_t bytes_stored_ = 0;
};

std::string update_key(parsyn::Id worker) {
  return "updates/worker-" + std::to_string(worker) + ".safetensors";
}

double mean(const std::vector<std::uint64_t> &numbers) {
  double sum = 0;
  for (const std::uint64_t number : numbers) sum += static_cast<double>(number);
  return sum / static_cast<double>(numbers.size());
}

/// What a worker does in a round: its numbers are its model, and its update is their mean.
parsyn::ObjectInfo train_and_upload(parsyn::ObjectStore &store, parsyn::Id worker,
                                    const std::vector<std::uint64_t> &numbers) {
  const auto writer = store.create(update_key(worker));
  parsyn::write_safetensors({{"mean", parsyn::make_f32_tensor({1}, {static_cast<float>(mean(numbers))})}},
                            *writer);
  return writer->commit();
}

int run() {
  using std::chrono::seconds;
  MeteredStore store(parsyn::make_memory_store());

  // Who has which examples: the numbers 0 to 9 are dealt out as 4, 3 and 3. One seed gives one split,
  // everywhere.
  parsyn::PartitionRequest request;
  request.num_examples = kExamples;
  request.num_partitions = kWorkers;
  request.seed = 1;
  const parsyn::Partitions partitions = parsyn::make_even_partitioner()->partition(request);

  // The round decides; the host does what it says. Its clock is an argument: this one jumps.
  parsyn::RoundOptions options;
  options.min_workers = 2;
  options.max_workers = kWorkers;
  options.timeout = seconds(60);
  parsyn::Round round(options);
  parsyn::Time now{0};
  std::vector<parsyn::ReportSummary> to_average;
  const auto step = [&](const parsyn::RoundEvent &event) {
    const parsyn::RoundActions actions = round.step(event, now);
    for (const std::string &reason : actions.reasons) {
      std::printf("%3lld s  %s\n", static_cast<long long>(now.count() / 1000), reason.c_str());
    }
    if (!actions.aggregate.empty()) to_average = actions.aggregate;
    return actions;
  };

  parsyn::RoundOpened opened;
  for (parsyn::Id worker = 1; worker <= kWorkers; ++worker) opened.cohort.push_back({worker, worker * 100});
  const std::vector<parsyn::Invitation> cohort = step(opened).invite;
  for (const parsyn::Invitation &invited : cohort) {
    now += seconds(10);
    if (invited.worker == kWorkers) continue;  // the straggler: it never reports
    const std::vector<std::uint64_t> &numbers = partitions[invited.worker - 1];
    const parsyn::ObjectInfo update = train_and_upload(store, invited.worker, numbers);
    const parsyn::RoundActions actions = step(parsyn::ReportArrived{
        {invited.worker, invited.lease, options.number, update.sha256, numbers.size()}});

    // Nothing of an update counts before all of it has been checked.
    const std::vector<parsyn::TensorSpec> expected{{"mean", parsyn::Dtype::f32, {1}}};
    parsyn::InlineExecutor executor;
    for (const parsyn::Id worker : actions.check) {
      const auto source = store.open(update_key(worker));
      step(parsyn::UpdateChecked{worker, parsyn::why_update_is_refused(*source, expected, executor)});
    }
  }
  now = *round.deadline();
  step(parsyn::TimePassed{});  // two of three are enough: the round closes

  // The average of what counts, each update weighted by its examples, from store to store.
  std::vector<std::unique_ptr<parsyn::ByteSource>> sources;
  std::vector<parsyn::Update> updates;
  std::vector<std::uint64_t> numbers;
  for (const parsyn::ReportSummary &report : to_average) {
    sources.push_back(store.open(update_key(report.worker)));
    updates.push_back({report.worker, report.num_examples, sources.back().get()});
    const auto &own = partitions[report.worker - 1];
    numbers.insert(numbers.end(), own.begin(), own.end());
  }
  parsyn::InlineExecutor executor;
  const auto writer = store.create("global.safetensors");
  parsyn::FedAvgAggregator().aggregate({{"mean", parsyn::Dtype::f32, {1}}}, updates, executor, *writer);
  writer->commit();
  step(parsyn::AggregationFinished{});

  const parsyn::StateDict global = parsyn::read_safetensors(*store.open("global.safetensors"));
  const double found = parsyn::f32_elements(global.at("mean")).front();
  std::printf("mean of %zu examples: %.6f, federated: %.6f; %llu bytes stored\n", numbers.size(),
              mean(numbers), found, static_cast<unsigned long long>(store.bytes_stored()));
  const bool right =
      round.state() == parsyn::Round::State::succeeded && std::abs(found - mean(numbers)) < 1e-6;
  return right ? 0 : 1;
}

}  // namespace

int main() { return run_example("parts", run); }
