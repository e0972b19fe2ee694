// What all partitioners ask of a request before they draw.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/partitioner.hpp"

namespace parsyn::core {

/// The second part of derive_seed({seed, purpose}): each use of one seed draws from a stream of its own.
enum class SeedPurpose : std::uint64_t {
  even = 0x706172746974696f,       // "partitio"
  dirichlet = 0x6469726963686c65,  // "dirichle"
  shards = 0x736861726473,         // "shards"
  validation = 0x76616c6964,       // "valid"
};

/// Throws Error(invalid_argument) for no partition or fewer examples than partitions, and Error(too_large).
void check_partition_counts(const PartitionRequest &request);

/// Throws Error(invalid_argument) unless there is one label per example.
void check_partition_labels(const PartitionRequest &request, std::string_view partitioner);

/// The shortest text of `value`, the same in every locale.
std::string number_text(double value);

/// 0, 1, ... `count` - 1.
std::vector<std::uint64_t> all_indices(std::uint64_t count);

/// Example indices sorted by label, and by index among equal labels.
std::vector<std::uint64_t> indices_by_label(const PartitionRequest &request);

/// Size of run `run` when `total` is cut into `runs` consecutive runs that differ by at most one, the larger
/// first.
constexpr std::uint64_t run_size(std::uint64_t total, std::uint64_t runs, std::uint64_t run) {
  return total / runs + (run < total % runs ? 1 : 0);
}

}  // namespace parsyn::core
