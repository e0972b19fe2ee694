#include "coordinator/stored_data.hpp"

#include <algorithm>
#include <cstring>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "system/files.hpp"

namespace parsyn::coordinator {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

std::string round_folder(Id job, std::uint32_t round) {
  return job_folder(job) + "rounds/" + std::to_string(round);
}

ObjectInfo store_source(ObjectStore &store, const std::string &key, const ByteSource &source) {
  const auto writer = store.create(key);
  std::vector<std::byte> buffer(kCopyBytes);
  for (std::uint64_t offset = 0; offset < source.size();) {
    const auto part = std::min<std::uint64_t>(buffer.size(), source.size() - offset);
    source.read_at(offset, std::span(buffer.data(), part));
    writer->write(std::span(buffer.data(), part));
    offset += part;
  }
  return writer->commit();
}

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
std::string global_key(Id job, std::uint32_t round, std::uint32_t attempt) {
  return round_folder(job, round) + "/global-" + std::to_string(attempt) + ".safetensors";
}
std::string update_folder(Id job, std::uint32_t round, std::uint32_t attempt) {
  return round_folder(job, round) + "/updates-" + std::to_string(attempt) + "/";
}
std::string update_key(Id job, std::uint32_t round, std::uint32_t attempt, Id worker, std::uint64_t lease) {
  return update_folder(job, round, attempt) + "worker-" + std::to_string(worker) + "-lease-" +
         std::to_string(lease) + ".safetensors";
}
std::string partitions_folder(Id job) { return job_folder(job) + "partitions/"; }
std::string partition_key(Id job, std::uint32_t partition) {
  return partitions_folder(job) + std::to_string(partition) + ".safetensors";
}

ObjectInfo store_state(ObjectStore &store, const std::string &key, const StateDict &state) {
  const auto writer = store.create(key);
  write_safetensors(state, *writer, {{"format", "pt"}});
  return writer->commit();
}

ObjectInfo store_file(ObjectStore &store, const std::string &key, const std::filesystem::path &path) {
  return store_source(store, key, system::FileSource(path));
}

ObjectInfo copy_object(ObjectStore &store, const std::string &from, const std::string &to) {
  return store_source(store, to, *store.open(from));
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

std::vector<ObjectInfo> store_partitions(ObjectStore &store, const ByteSource &source, Id job,
                                         std::uint32_t count, const Partitioner &partitioner,
                                         std::uint64_t seed, std::vector<std::uint64_t> &examples_of_each) {
  const SafetensorsHeader header = read_safetensors_header(source);
  std::vector<std::int64_t> labels;
  PartitionRequest request{.num_examples = header.find("x")->spec.shape.at(0),
                           .num_partitions = count,
                           .seed = seed,
                           .labels = {}};
  if (partitioner.name() != "even") {
    labels = read_labels(source, header);
    request.labels = labels;
  }
  std::vector<ObjectInfo> stored;
  const Partitions partitions = partitioner.partition(request);
  for (std::uint32_t i = 0; i < partitions.size(); ++i) {
    examples_of_each.push_back(partitions[i].size());
    stored.push_back(store_rows(store, partition_key(job, i), source, header, partitions[i]));
  }
  return stored;
}

}  // namespace parsyn::coordinator
