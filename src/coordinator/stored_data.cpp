#include "coordinator/stored_data.hpp"

#include <algorithm>
#include <cstring>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "system/blocks.hpp"
#include "system/files.hpp"
#include "system/interruptible.hpp"

namespace parsyn::coordinator {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

std::string round_folder(Id job, const core::RoundAttempt &attempt) {
  return job_folder(job) + "rounds/" + std::to_string(attempt.round);
}

class SourceOpenedForEachRead final : public ByteSource {
 public:
  SourceOpenedForEachRead(const ObjectStore &store, std::string key)
      : store_(store), key_(std::move(key)), size_(store.open(key_)->size()) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    store_.open(key_)->read_at(offset, out);
  }

 private:
  const ObjectStore &store_;
  std::string key_;
  std::uint64_t size_;
};

/// Collects small writes into large ones.
class BufferedSink {
 public:
  explicit BufferedSink(ByteSink &sink) : sink_(sink) { buffer_.reserve(kCopyBytes); }
  std::span<std::byte> take(std::size_t bytes) {
    if (buffer_.size() + bytes > kCopyBytes) flush();
    const std::size_t at = buffer_.size();
    buffer_.resize(at + bytes);
    return std::span(buffer_).subspan(at);
  }
  void flush() {
    sink_.write(buffer_);
    buffer_.clear();
  }

 private:
  ByteSink &sink_;
  std::vector<std::byte> buffer_;
};

std::vector<std::int64_t> read_labels(const ByteSource &source, const SafetensorsHeader &header) {
  const SafetensorsEntry *y = header.find("y");
  if (y == nullptr || y->spec.dtype != Dtype::i64 || y->spec.shape.size() != 1) {
    throw Error(ErrorCode::invalid_argument, "the dataset has no class labels to divide by");
  }
  std::vector<std::int64_t> labels(y->spec.shape[0]);
  source.read_at(y->begin, std::as_writable_bytes(std::span(labels)));
  return labels;
}

ObjectInfo store_rows(ObjectStore &store, const std::string &key, const ByteSource &source,
                      const SafetensorsHeader &header, const std::vector<std::uint64_t> &rows) {
  std::vector<TensorSpec> specs = header.specs();
  for (TensorSpec &spec : specs) spec.shape[0] = rows.size();
  const SafetensorsLayout layout = layout_safetensors(specs);
  const auto writer = store.create(key);
  writer->write(std::as_bytes(std::span(layout.head.data(), layout.head.size())));
  BufferedSink sink(*writer);
  for (const SafetensorsEntry &entry : layout.tensors) {
    const SafetensorsEntry &from = *header.find(entry.spec.name);
    const std::uint64_t row_bytes = from.spec.shape[0] == 0 ? 0 : from.bytes / from.spec.shape[0];
    for (const std::uint64_t row : rows) source.read_at(from.begin + row * row_bytes, sink.take(row_bytes));
  }
  sink.flush();
  return writer->commit();
}

}  // namespace

std::string train_key(Id dataset) { return "datasets/" + std::to_string(dataset) + "/train.safetensors"; }
std::string validation_key(Id dataset) {
  return "datasets/" + std::to_string(dataset) + "/validation.safetensors";
}
std::string model_weights_key(Id model) { return "models/" + std::to_string(model) + "/weights.safetensors"; }
std::string model_module_key(Id model) { return "models/" + std::to_string(model) + "/module.pt"; }
std::string job_folder(Id job) { return "jobs/" + std::to_string(job) + "/"; }
std::string global_key(Id job, const core::RoundAttempt &attempt) {
  return round_folder(job, attempt) + "/global-" + std::to_string(attempt.attempt) + ".safetensors";
}
std::string update_folder(Id job, const core::RoundAttempt &attempt) {
  return round_folder(job, attempt) + "/updates-" + std::to_string(attempt.attempt) + "/";
}
std::string update_key(Id job, const core::RoundAttempt &attempt, const Invitation &worker) {
  return update_folder(job, attempt) + "worker-" + std::to_string(worker.worker) + "-lease-" +
         std::to_string(worker.lease) + ".safetensors";
}
std::string partitions_folder(Id job) { return job_folder(job) + "partitions/"; }
std::string partition_key(Id job, std::uint32_t partition) {
  return partitions_folder(job) + std::to_string(partition) + ".safetensors";
}

NewObjects::~NewObjects() {
  for (const std::string &key : keys_) {
    try {
      store_.remove(key);
    } catch (...) {
      // It is in nobody's way, and goes at the next start.
    }
  }
}

ObjectInfo NewObjects::add_state(const std::string &key, const StateDict &state) {
  const auto writer = store_.create(key);
  system::InterruptibleSink sink(*writer, cancelled_);
  write_safetensors(state, sink, {{"format", "pt"}});
  keys_.push_back(key);  // a commit that fails may have stored it
  return writer->commit();
}

ObjectInfo NewObjects::add_file(const std::string &key, const std::filesystem::path &path) {
  return add_source(key, std::make_unique<system::FileSource>(path));
}

ObjectInfo NewObjects::add_copy(const std::string &key, const std::string &from) {
  return add_source(key, store_.open(from));
}

ObjectInfo NewObjects::add_source(const std::string &key, std::unique_ptr<ByteSource> opened) {
  const system::InterruptibleSource source(std::move(opened), cancelled_);
  const auto writer = store_.create(key);
  system::for_each_block(source, kCopyBytes,
                         [&](std::span<const std::byte> piece, std::uint64_t) { writer->write(piece); });
  keys_.push_back(key);
  return writer->commit();
}

std::unique_ptr<ByteSource> open_for_each_read(const ObjectStore &store, const std::string &key) {
  return std::make_unique<SourceOpenedForEachRead>(store, key);
}

std::unique_ptr<Partitioner> make_partitioner(const PartitioningConfig &config) {
  if (config.kind == "even") return make_even_partitioner();
  if (config.kind == "dirichlet") {
    DirichletOptions options;
    options.alpha = config.alpha;
    return make_dirichlet_partitioner(options);
  }
  if (config.kind == "shards") return make_shards_partitioner(config.shards_per_worker);
  throw Error(ErrorCode::invalid_argument,
              "there is no partitioner named " + config.kind + " (even, dirichlet, shards)");
}

StoredPartitions store_partitions(ObjectStore &store, const ByteSource &source, const PartitionPlan &plan) {
  const SafetensorsHeader header = read_safetensors_header(source);
  std::vector<std::int64_t> labels;
  PartitionRequest request{.num_examples = header.find("x")->spec.shape.at(0),
                           .num_partitions = plan.count,
                           .seed = plan.seed,
                           .labels = {}};
  if (plan.partitioner.name() != "even") {
    labels = read_labels(source, header);
    request.labels = labels;
  }
  StoredPartitions stored;
  const Partitions partitions = plan.partitioner.partition(request);
  for (std::uint32_t i = 0; i < partitions.size(); ++i) {
    stored.examples.push_back(partitions[i].size());
    stored.objects.push_back(store_rows(store, partition_key(plan.job, i), source, header, partitions[i]));
  }
  return stored;
}

}  // namespace parsyn::coordinator
