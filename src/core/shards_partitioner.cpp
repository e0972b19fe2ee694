#include <algorithm>
#include <memory>
#include <string>

#include "core/counted.hpp"
#include "core/partition_request.hpp"
#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn {
namespace core {
namespace {

class ShardsPartitioner final : public Partitioner {
 public:
  explicit ShardsPartitioner(std::uint32_t shards_per_partition)
      : shards_per_partition_(shards_per_partition) {}

  std::string name() const override { return "shards"; }
  std::uint32_t version() const override { return 1; }

  Partitions partition(const PartitionRequest &request) const override {
    check_partition_counts(request);
    check_partition_labels(request, name());
    const std::uint64_t shards = std::uint64_t{request.num_partitions} * shards_per_partition_;
    if (shards > request.num_examples) {
      throw Error(ErrorCode::invalid_argument,
                  counted(request.num_partitions, "partition") + " of " +
                      counted(shards_per_partition_, "shard") + " take " + counted(shards, "shard") +
                      ", more than there are examples (" + std::to_string(request.num_examples) +
                      "); no shard may be empty");
    }
    const std::vector<std::uint64_t> sorted = indices_by_label(request);
    std::vector<std::uint64_t> dealt = all_indices(shards);
    Random random(derive_seed({request.seed, static_cast<std::uint64_t>(SeedPurpose::shards)}));
    random.shuffle(dealt);

    Partitions partitions(request.num_partitions);
    for (std::uint64_t deal = 0; deal < shards; ++deal) {
      // The first `longer` shards hold one example more.
      const std::uint64_t shard = dealt[deal];
      const std::uint64_t longer = request.num_examples % shards;
      const std::uint64_t begin = shard * (request.num_examples / shards) + std::min(shard, longer);
      const auto first = sorted.cbegin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = first + static_cast<std::ptrdiff_t>(run_size(request.num_examples, shards, shard));
      std::vector<std::uint64_t> &partition = partitions[deal / shards_per_partition_];
      partition.insert(partition.end(), first, last);
    }
    for (std::vector<std::uint64_t> &indices : partitions) random.shuffle(indices);
    return partitions;
  }

 private:
  std::uint32_t shards_per_partition_;
};

}  // namespace
}  // namespace core

std::unique_ptr<Partitioner> make_shards_partitioner(std::uint32_t shards_per_partition) {
  if (shards_per_partition == 0) {
    throw Error(ErrorCode::invalid_argument,
                "0 shards per partition would leave every partition empty; 2 is usual");
  }
  return std::make_unique<core::ShardsPartitioner>(shards_per_partition);
}

}  // namespace parsyn
