// What tests ask of partitions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parsyn/partitioner.hpp"

namespace parsyn::test {

inline std::vector<std::uint64_t> sizes_of(const Partitions &partitions) {
  std::vector<std::uint64_t> sizes;
  for (const auto &partition : partitions) sizes.push_back(partition.size());
  return sizes;
}

/// Every index below `num_examples` exactly once, and no other.
inline bool covers_exactly(const Partitions &partitions, std::uint64_t num_examples) {
  std::vector<std::uint64_t> all;
  for (const auto &partition : partitions) all.insert(all.end(), partition.begin(), partition.end());
  std::sort(all.begin(), all.end());
  if (all.size() != num_examples) return false;
  for (std::uint64_t i = 0; i < num_examples; ++i) {
    if (all[i] != i) return false;
  }
  return true;
}

/// 0, 1, ..., classes - 1, 0, 1, ...
inline std::vector<std::int64_t> cycled_labels(std::uint64_t count, std::int64_t classes) {
  std::vector<std::int64_t> labels(count);
  for (std::uint64_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(i) % classes;
  return labels;
}

}  // namespace parsyn::test
