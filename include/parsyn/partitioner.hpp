// How the examples of a dataset are divided among workers.
//
// Partitioning is a pure function of its arguments, the same on every platform: the generator is
// std::mt19937_64 (fixed by the C++ standard), bounded draws and shuffles are parsyn's own
// (docs/partitioning.md has the algorithm and golden values). Every example goes to exactly one partition. An
// empty partition is refused.
//
// Thread-safety: partitioners are immutable; call them from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace parsyn {

/// Example indices of each partition, in the order in which they are stored.
using Partitions = std::vector<std::vector<std::uint64_t>>;

struct PartitionRequest {
  std::uint64_t num_examples = 0;
  std::uint32_t num_partitions = 0;
  std::uint64_t seed = 0;
  std::span<const std::int64_t> labels = {};  ///< One per example; only label-skew partitioners need them.
};

class Partitioner {
 public:
  virtual ~Partitioner() = default;

  /// "even", "fixed", "dirichlet", "shards".
  virtual std::string name() const = 0;
  /// Changes whenever the same request would give another split; recorded with the job.
  virtual std::uint32_t version() const = 0;
  /// Throws Error(invalid_argument) for fewer examples than partitions, missing labels, or an impossible
  /// minimum.
  virtual Partitions partition(const PartitionRequest &request) const = 0;
};

/// Seeded shuffle, then consecutive runs whose sizes differ by at most one, the larger first.
std::unique_ptr<Partitioner> make_even_partitioner();

/// Exactly these partitions; a request must match them in number and examples.
std::unique_ptr<Partitioner> make_fixed_partitioner(Partitions partitions);

inline constexpr double kDirichletAlphaMin = 1e-6;
inline constexpr double kDirichletAlphaMax = 1e6;

struct DirichletOptions {
  double alpha = 0.5;              ///< Concentration: small is skewed.
  std::uint64_t examples_min = 1;  ///< Per partition.
  bool equal_sizes =
      false;  ///< Sizes that differ by at most one, the larger first; the skew is of labels only.
};
/// For each class, shares over the partitions drawn from Dirichlet(alpha) (Hsu et al. 2019, arXiv
/// 1909.06335). Ends for every input: what falls short of the minimum is moved from the largest partitions.
/// Throws Error(invalid_argument) for an alpha outside its bounds.
std::unique_ptr<Partitioner> make_dirichlet_partitioner(const DirichletOptions &options);

/// Sorts by label, cuts into num_partitions x shards_per_partition shards, deals them out by a seeded shuffle
/// (McMahan et al. 2017, arXiv 1602.05629, section 3).
std::unique_ptr<Partitioner> make_shards_partitioner(std::uint32_t shards_per_partition);

/// Which examples train and which validate, each in ascending order.
struct ValidationIndices {
  std::vector<std::uint64_t> training = {};
  std::vector<std::uint64_t> validation = {};
};

/// Seeded shuffle of all examples; the first num_examples x fraction of them, rounded to the nearest whole
/// number but at least 1 and at most num_examples - 1, validate. Throws Error(invalid_argument) for a
/// fraction outside (0, 1) or fewer than two examples.
ValidationIndices validation_indices(std::uint64_t num_examples, double fraction, std::uint64_t seed);

}  // namespace parsyn
