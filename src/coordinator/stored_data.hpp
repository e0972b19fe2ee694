// Datasets and models as objects of the store: written at registration, divided when a job's first round
// opens.
//
// Thread-safety: free functions without state; the store is thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/job.hpp"
#include "parsyn/coordinator.hpp"
#include "parsyn/dataset.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn::coordinator {

// Keys. Names that people give never become part of one.
std::string train_key(Id dataset);
std::string validation_key(Id dataset);
std::string model_weights_key(Id model);
std::string model_module_key(Id model);
/// "jobs/ID/": what of a job is below it.
std::string job_folder(Id job);
std::string global_key(Id job, const core::RoundAttempt &attempt);
std::string update_folder(Id job, const core::RoundAttempt &attempt);
std::string update_key(Id job, const core::RoundAttempt &attempt, const Invitation &worker);
std::string partitions_folder(Id job);
std::string partition_key(Id job, std::uint32_t partition);

/// Stores the objects of something new. Unless keep() is called they are removed again at the end: a
/// registration that fails, and is tried again and again, must not fill the store. What cannot be removed
/// goes at the coordinator's next start, as what a crash leaves does.
class NewObjects {
 public:
  /// What is stored is given up with Error(cancelled) once `cancelled` says so.
  NewObjects(ObjectStore &store, CancelQuery cancelled) : store_(store), cancelled_(std::move(cancelled)) {}
  ~NewObjects();
  NewObjects(const NewObjects &) = delete;
  NewObjects &operator=(const NewObjects &) = delete;

  ObjectInfo add_state(const std::string &key, const StateDict &state);
  ObjectInfo add_file(const std::string &key, const std::filesystem::path &path);
  ObjectInfo add_copy(const std::string &key, const std::string &from);
  /// From now on the journal may refer to them.
  void keep() { keys_.clear(); }

 private:
  ObjectInfo add_source(const std::string &key, std::unique_ptr<ByteSource> source);

  ObjectStore &store_;
  CancelQuery cancelled_;
  std::vector<std::string> keys_;
};

/// The object's bytes without a file that stays open: it is opened for each read. So an average of thousands
/// of updates needs no more file descriptors than one of a few. `store` outlives it. Whoever reads sees what
/// lies under the key at that moment.
std::unique_ptr<ByteSource> open_for_each_read(const ObjectStore &store, const std::string &key);

/// The partitioner that a job's configuration names.
std::unique_ptr<Partitioner> make_partitioner(const PartitioningConfig &config);

struct PartitionPlan {
  Id job = 0;
  std::uint32_t count = 0;
  const Partitioner &partitioner;
  std::uint64_t seed = 0;
};
struct StoredPartitions {
  std::vector<ObjectInfo> objects;
  std::vector<std::uint64_t> examples;  // of each
};
/// Divides the training examples in `source` and stores each partition. Rows are copied one by one: memory
/// does not grow with the dataset.
StoredPartitions store_partitions(ObjectStore &store, const ByteSource &source, const PartitionPlan &plan);

}  // namespace parsyn::coordinator
