#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "core/counted.hpp"
#include "core/gamma_draws.hpp"
#include "core/partition_request.hpp"
#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn {
namespace core {
namespace {

/// Whole numbers near total x shares that add up to `total`: floors, then one more each in the order of the
/// largest remainder, the lower partition first among equals.
std::vector<std::uint64_t> round_to_total(const std::vector<double> &shares, std::uint64_t total) {
  std::vector<std::uint64_t> counts(shares.size());
  std::vector<double> remainders(shares.size());
  std::uint64_t left = total;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double exact = shares[i] * static_cast<double>(total);
    // The shares add up to 1 only within rounding, so that the last floor may ask for more than is left.
    counts[i] = std::min(static_cast<std::uint64_t>(exact), left);
    remainders[i] = exact - static_cast<double>(counts[i]);
    left -= counts[i];
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t next = 0; left > 0; next = (next + 1) % order.size(), --left) ++counts[order[next]];
  return counts;
}

/// Moves randomly drawn examples until partition i has at least floors[i]: always from the partition that has
/// most above its own floor (the lower one among equals) to the lowest that lacks some. Each move fills one
/// of a finite number of lacks, and while there is one the sum of floors <= examples means that some
/// partition has more than its floor: so this ends.
void fill_to_floors(Partitions &partitions, const std::vector<std::uint64_t> &floors, Random &random) {
  struct Donor {
    std::uint64_t above;
    std::size_t partition;
    bool operator<(const Donor &other) const {
      return above != other.above ? above < other.above : partition > other.partition;
    }
  };
  std::priority_queue<Donor> donors;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    if (partitions[i].size() > floors[i]) donors.push({partitions[i].size() - floors[i], i});
  }
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    while (partitions[i].size() < floors[i]) {
      Donor donor = donors.top();
      donors.pop();
      std::vector<std::uint64_t> &from = partitions[donor.partition];
      std::swap(from[random.below(from.size())], from.back());
      partitions[i].push_back(from.back());
      from.pop_back();
      if (--donor.above > 0) donors.push(donor);
    }
  }
}

class DirichletPartitioner final : public Partitioner {
 public:
  explicit DirichletPartitioner(const DirichletOptions &options) : options_(options) {}

  std::string name() const override { return "dirichlet"; }
  std::uint32_t version() const override { return 1; }

  Partitions partition(const PartitionRequest &request) const override {
    check_partition_counts(request);
    check_partition_labels(request, name());
    if (options_.examples_min > request.num_examples / request.num_partitions) {
      throw Error(ErrorCode::invalid_argument,
                  counted(request.num_partitions, "partition") + " of at least " +
                      counted(options_.examples_min, "example") + " need more than the " +
                      std::to_string(request.num_examples) +
                      " that there are; lower the minimum or the partitions");
    }
    Random random(derive_seed({request.seed, static_cast<std::uint64_t>(SeedPurpose::dirichlet)}));
    Partitions partitions = deal_classes(request, random);
    fill_to_floors(partitions, floors(request), random);
    for (std::vector<std::uint64_t> &indices : partitions) random.shuffle(indices);
    return partitions;
  }

 private:
  Partitions deal_classes(const PartitionRequest &request, Random &random) const {
    const std::vector<std::uint64_t> sorted = indices_by_label(request);
    Partitions partitions(request.num_partitions);
    for (auto begin = sorted.cbegin(); begin != sorted.cend();) {
      const std::int64_t label = request.labels[*begin];
      const auto end =
          std::find_if(begin, sorted.cend(), [&](std::uint64_t i) { return request.labels[i] != label; });
      std::vector<std::uint64_t> of_class(begin, end);
      random.shuffle(of_class);
      const auto counts =
          round_to_total(draw_dirichlet(random, options_.alpha, request.num_partitions), of_class.size());
      auto next = of_class.cbegin();
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto stop = next + static_cast<std::ptrdiff_t>(counts[i]);
        partitions[i].insert(partitions[i].end(), next, stop);
        next = stop;
      }
      begin = end;
    }
    return partitions;
  }

  std::vector<std::uint64_t> floors(const PartitionRequest &request) const {
    // An empty partition is refused everywhere, so that the minimum is at least one.
    std::vector<std::uint64_t> result(request.num_partitions,
                                      std::max<std::uint64_t>(options_.examples_min, 1));
    if (options_.equal_sizes) {
      for (std::uint32_t i = 0; i < request.num_partitions; ++i) {
        result[i] = run_size(request.num_examples, request.num_partitions, i);
      }
    }
    return result;
  }

  DirichletOptions options_;
};

}  // namespace
}  // namespace core

std::unique_ptr<Partitioner> make_dirichlet_partitioner(const DirichletOptions &options) {
  // Negated, so that NaN is refused too.
  if (!(options.alpha >= kDirichletAlphaMin && options.alpha <= kDirichletAlphaMax)) {
    throw Error(ErrorCode::invalid_argument, "the Dirichlet partitioner's alpha is " +
                                                 core::number_text(options.alpha) +
                                                 "; it must lie between 0.000001 and 1000000");
  }
  return std::make_unique<core::DirichletPartitioner>(options);
}

}  // namespace parsyn
