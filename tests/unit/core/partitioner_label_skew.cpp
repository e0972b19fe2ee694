#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>

#include "parsyn/partitioner.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/partitions.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

Partitions dirichlet(const std::vector<std::int64_t> &labels, std::uint32_t partitions, std::uint64_t seed,
                     const DirichletOptions &options) {
  return make_dirichlet_partitioner(options)->partition({labels.size(), partitions, seed, labels});
}

}  // namespace

TEST_CASE("the Dirichlet partitioner gives the golden splits of docs/partitioning.md") {
  const auto labels = cycled_labels(20, 3);
  CHECK(dirichlet(labels, 4, 42, {.alpha = 0.5}) ==
        Partitions{{1, 5, 19, 16, 15, 4}, {8, 13, 7}, {3, 10}, {6, 17, 18, 11, 14, 12, 2, 0, 9}});
  CHECK(dirichlet(labels, 4, 42, {.alpha = 0.1, .equal_sizes = true}) ==
        Partitions{{8, 14, 0, 17, 5}, {16, 10, 1, 13, 4}, {19, 6, 11, 12, 7}, {2, 18, 3, 9, 15}});
  CHECK(dirichlet(labels, 4, 7, {.alpha = 0.01, .examples_min = 3}) ==
        Partitions{{4, 18, 0}, {12, 3, 15, 9, 6}, {10, 7, 19, 16, 1, 13}, {5, 11, 8, 14, 2, 17}});
}

TEST_CASE("every alpha between the bounds gives a whole split") {
  const auto labels = cycled_labels(503, 7);
  for (const double alpha :
       {kDirichletAlphaMin, 1e-4, 0.01, 0.3, 0.999, 1.0, 3.7, 100.0, kDirichletAlphaMax}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Partitions partitions = dirichlet(labels, 9, seed, {.alpha = alpha, .examples_min = 5});
      REQUIRE(covers_exactly(partitions, 503));
      for (const auto &partition : partitions) CHECK(partition.size() >= 5);
    }
  }
}

TEST_CASE("a large alpha gives every partition its share of every class, a small one a few classes") {
  const auto labels = cycled_labels(10'000, 10);
  const auto largest_class_share = [&](double alpha) {
    double sum = 0;
    const Partitions partitions = dirichlet(labels, 10, 3, {.alpha = alpha, .examples_min = 50});
    for (const auto &partition : partitions) {
      std::vector<double> counts(10);
      for (const std::uint64_t index : partition) ++counts[static_cast<std::size_t>(labels[index])];
      sum += *std::max_element(counts.begin(), counts.end()) / static_cast<double>(partition.size());
    }
    return sum / 10;
  };
  CHECK(largest_class_share(1e6) < 0.11);
  CHECK(largest_class_share(0.05) > 0.4);
}

TEST_CASE("labels need not be small or positive") {
  const std::vector<std::int64_t> labels{INT64_MIN, INT64_MAX, -1, INT64_MIN, 0, INT64_MAX};
  CHECK(covers_exactly(dirichlet(labels, 2, 1, {}), 6));
  CHECK(covers_exactly(make_shards_partitioner(2)->partition({6, 2, 1, labels}), 6));
}

TEST_CASE("a label-skew request without labels, or with an impossible minimum, is refused") {
  const std::vector<std::int64_t> labels = cycled_labels(20, 3);
  CHECK(mentions(error_of([] {
                   make_dirichlet_partitioner({})->partition({20, 4, 1, {}});
                 }),
                 "none was given"));
  CHECK(mentions(error_of([&] {
                   make_dirichlet_partitioner({})->partition({21, 4, 1, labels});
                 }),
                 "20 were given"));
  CHECK(mentions(error_of([] { make_shards_partitioner(2)->partition({20, 4, 1, {}}); }), "\"shards\""));
  CHECK(error_of([&] { dirichlet(labels, 4, 1, {.examples_min = 6}); }).code() ==
        ErrorCode::invalid_argument);
  CHECK(error_of([&] { dirichlet(labels, 4, 1, {.examples_min = UINT64_MAX}); }).code() ==
        ErrorCode::invalid_argument);
  for (const double alpha : {0.0, -1.0, 1e-7, 1e7, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    CHECK(error_of([&] { make_dirichlet_partitioner({.alpha = alpha}); }).code() ==
          ErrorCode::invalid_argument);
  }
}

TEST_CASE("a refused alpha is named as it was given") {
  CHECK(mentions(error_of([] { make_dirichlet_partitioner({.alpha = 1e-7}); }), "alpha is 1e-07;"));
  CHECK(mentions(error_of([] { make_dirichlet_partitioner({.alpha = -0.5}); }), "alpha is -0.5;"));
}

TEST_CASE("the shards partitioner gives the golden split of docs/partitioning.md") {
  const auto labels = cycled_labels(21, 5);
  CHECK(make_shards_partitioner(2)->partition({21, 3, 42, labels}) ==
        Partitions{{2, 12, 6, 7, 16, 1, 11, 20}, {14, 13, 18, 9, 4, 19}, {8, 10, 17, 0, 15, 5, 3}});
}

TEST_CASE("a partition of two shards sees only a few classes, and every example is there once") {
  const auto labels = cycled_labels(1000, 10);
  const Partitions partitions = make_shards_partitioner(2)->partition({1000, 10, 1, labels});
  REQUIRE(covers_exactly(partitions, 1000));
  for (const auto &partition : partitions) {
    std::set<std::int64_t> classes;
    for (const std::uint64_t index : partition) classes.insert(labels[index]);
    CHECK(partition.size() == 100);
    CHECK(classes.size() <= 2);
  }
}

TEST_CASE("more shards than examples are refused, and so are none") {
  const auto labels = cycled_labels(5, 2);
  CHECK(mentions(error_of([&] { make_shards_partitioner(2)->partition({5, 3, 1, labels}); }), "6 shards"));
  CHECK(error_of([] { make_shards_partitioner(0); }).code() == ErrorCode::invalid_argument);
}
