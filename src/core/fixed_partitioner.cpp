#include <memory>
#include <string>
#include <utility>

#include "core/counted.hpp"
#include "core/partition_request.hpp"
#include "parsyn/error.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn {
namespace core {
namespace {

class FixedPartitioner final : public Partitioner {
 public:
  explicit FixedPartitioner(Partitions partitions) : partitions_(std::move(partitions)) {}

  std::string name() const override { return "fixed"; }
  std::uint32_t version() const override { return 1; }

  Partitions partition(const PartitionRequest &request) const override {
    check_partition_counts(request);
    if (partitions_.size() != request.num_partitions) {
      throw Error(ErrorCode::invalid_argument, std::to_string(request.num_partitions) +
                                                   " partitions were asked for, but " +
                                                   std::to_string(partitions_.size()) + " are fixed");
    }
    check_covers(request.num_examples);
    return partitions_;
  }

 private:
  /// Every example exactly once, and no partition empty.
  void check_covers(std::uint64_t num_examples) const {
    std::vector<bool> seen(num_examples);
    std::uint64_t covered = 0;
    for (std::size_t p = 0; p < partitions_.size(); ++p) {
      const std::string where = "fixed partition " + std::to_string(p);
      if (partitions_[p].empty()) throw Error(ErrorCode::invalid_argument, where + " is empty");
      for (const std::uint64_t index : partitions_[p]) {
        if (index >= num_examples) {
          throw Error(ErrorCode::invalid_argument, where + " names example " + std::to_string(index) +
                                                       ", but the dataset has " +
                                                       std::to_string(num_examples));
        }
        if (seen[index]) {
          throw Error(ErrorCode::invalid_argument, where + " names example " + std::to_string(index) +
                                                       ", which is already in a partition");
        }
        seen[index] = true;
        ++covered;
      }
    }
    if (covered != num_examples) {
      std::uint64_t missing = 0;
      while (seen[missing]) ++missing;
      throw Error(ErrorCode::invalid_argument, "the fixed partitions hold " + std::to_string(covered) +
                                                   " of " + counted(num_examples, "example") +
                                                   "; the first without a " + "partition is " +
                                                   std::to_string(missing));
    }
  }

  Partitions partitions_;
};

}  // namespace
}  // namespace core

std::unique_ptr<Partitioner> make_fixed_partitioner(Partitions partitions) {
  return std::make_unique<core::FixedPartitioner>(std::move(partitions));
}

}  // namespace parsyn
