// Datasets and models as objects of the store: written at registration, divided when a job's first round
// opens.
//
// Thread-safety: free functions without state; the store is thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
std::string global_key(Id job, std::uint32_t round, std::uint32_t attempt);
std::string update_folder(Id job, std::uint32_t round, std::uint32_t attempt);
std::string update_key(Id job, std::uint32_t round, std::uint32_t attempt, Id worker, std::uint64_t lease);
std::string partitions_folder(Id job);
std::string partition_key(Id job, std::uint32_t partition);

ObjectInfo store_state(ObjectStore &store, const std::string &key, const StateDict &state);
ObjectInfo store_file(ObjectStore &store, const std::string &key, const std::filesystem::path &path);
ObjectInfo copy_object(ObjectStore &store, const std::string &from, const std::string &to);

/// The partitioner that a job's configuration names.
std::unique_ptr<Partitioner> make_partitioner(const PartitioningConfig &config);

/// Divides the training examples in `source` into `count` partitions and stores each; examples of each are
/// returned. Rows are copied one by one: memory does not grow with the dataset.
std::vector<ObjectInfo> store_partitions(ObjectStore &store, const ByteSource &source, Id job,
                                         std::uint32_t count, const Partitioner &partitioner,
                                         std::uint64_t seed, std::vector<std::uint64_t> &examples_of_each);

}  // namespace parsyn::coordinator
