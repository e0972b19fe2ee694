#include <memory>
#include <string>

#include "core/partition_request.hpp"
#include "core/random.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn {
namespace core {
namespace {

class EvenPartitioner final : public Partitioner {
 public:
  std::string name() const override { return "even"; }
  std::uint32_t version() const override { return 1; }

  Partitions partition(const PartitionRequest &request) const override {
    check_partition_counts(request);
    std::vector<std::uint64_t> order = all_indices(request.num_examples);
    Random random(derive_seed({request.seed, static_cast<std::uint64_t>(SeedPurpose::even)}));
    random.shuffle(order);

    Partitions partitions(request.num_partitions);
    auto next = order.cbegin();
    for (std::uint32_t run = 0; run < request.num_partitions; ++run) {
      const auto end =
          next + static_cast<std::ptrdiff_t>(run_size(request.num_examples, request.num_partitions, run));
      partitions[run].assign(next, end);
      next = end;
    }
    return partitions;
  }
};

}  // namespace
}  // namespace core

std::unique_ptr<Partitioner> make_even_partitioner() { return std::make_unique<core::EvenPartitioner>(); }

}  // namespace parsyn
