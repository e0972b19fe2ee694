#include <chrono>
#include <random>
#include <set>

#include "parsyn/partitioner.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/partitions.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

Partitions even(std::uint64_t examples, std::uint32_t partitions, std::uint64_t seed) {
  return make_even_partitioner()->partition({examples, partitions, seed, {}});
}

Partitions dirichlet(const std::vector<std::int64_t> &labels, std::uint32_t partitions, std::uint64_t seed,
                     const DirichletOptions &options) {
  return make_dirichlet_partitioner(options)->partition({labels.size(), partitions, seed, labels});
}

}  // namespace

TEST_CASE("fault 58: fewer examples than workers are refused with both numbers") {
  const Error three = error_of([] { even(3, 5, 42); });
  CHECK(three.code() == ErrorCode::invalid_argument);
  CHECK(mentions(three, "3 examples"));
  CHECK(mentions(three, "5 partitions"));
  CHECK(error_of([] { even(0, 3, 42); }).code() == ErrorCode::invalid_argument);
  CHECK(even(1, 1, 42) == Partitions{{0}});
}

TEST_CASE("fault 59: no remainder is dropped or duplicated") {
  CHECK(sizes_of(even(10, 4, 42)) == std::vector<std::uint64_t>{3, 3, 2, 2});
  CHECK(sizes_of(even(7, 3, 42)) == std::vector<std::uint64_t>{3, 2, 2});
  CHECK(sizes_of(even(1001, 10, 42)) ==
        std::vector<std::uint64_t>{101, 100, 100, 100, 100, 100, 100, 100, 100, 100});
  CHECK(sizes_of(even(100, 7, 42)) == std::vector<std::uint64_t>{15, 15, 14, 14, 14, 14, 14});
  CHECK(covers_exactly(even(10, 4, 42), 10));
  CHECK(covers_exactly(even(7, 3, 42), 7));
  CHECK(covers_exactly(even(1001, 10, 42), 1001));
  CHECK(covers_exactly(even(100, 7, 42), 100));
}

TEST_CASE("fault 60: a label-skew split ends, and an impossible minimum is refused at once") {
  const auto begin = std::chrono::steady_clock::now();
  const auto labels = cycled_labels(100, 10);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Partitions partitions = dirichlet(labels, 10, seed, {.alpha = 0.01, .examples_min = 10});
    REQUIRE(covers_exactly(partitions, 100));
    for (const auto &partition : partitions) CHECK(partition.size() == 10);
  }
  const Error impossible = error_of([&] { dirichlet(labels, 10, 1, {.alpha = 0.01, .examples_min = 11}); });
  CHECK(impossible.code() == ErrorCode::invalid_argument);
  CHECK(mentions(impossible, "at least 11"));
  CHECK(mentions(impossible, "100"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("fault 61: a class that runs out leaves a finite split of exact sizes") {
  std::vector<std::int64_t> labels(100, 0);
  for (std::size_t i = 90; i < 100; ++i) labels[i] = 1;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Partitions partitions = dirichlet(labels, 2, seed, {.alpha = 100, .equal_sizes = true});
    CHECK(sizes_of(partitions) == std::vector<std::uint64_t>{50, 50});
    CHECK(covers_exactly(partitions, 100));
  }
}

TEST_CASE("fault 62: label-skew partitions are disjoint and hold every example") {
  const auto labels = cycled_labels(1000, 10);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(covers_exactly(dirichlet(labels, 10, seed, {.alpha = 0.3}), 1000));
    CHECK(covers_exactly(make_shards_partitioner(2)->partition({1000, 10, seed, labels}), 1000));
  }
}

TEST_CASE("fault 63: one seed gives one split on every platform") {
  std::mt19937 narrow;
  narrow.discard(9'999);
  CHECK(narrow() == 4123659995u);
  std::mt19937_64 wide;
  wide.discard(9'999);
  CHECK(wide() == 9981545732273789042ull);
  CHECK(even(10, 3, 42) == Partitions{{6, 1, 2, 4}, {5, 7, 3}, {0, 9, 8}});
  CHECK(make_even_partitioner()->version() == 1);
}

TEST_CASE("fault 65: seed 0 is a seed like any other") {
  CHECK(even(100, 3, 0) == even(100, 3, 0));
  CHECK(even(100, 3, 0) != even(100, 3, 1));
  const auto labels = cycled_labels(100, 10);
  CHECK(dirichlet(labels, 3, 0, {}) == dirichlet(labels, 3, 0, {}));
  CHECK(dirichlet(labels, 3, 0, {}) != dirichlet(labels, 3, 1, {}));
}

TEST_CASE("fault 66: an even split of sorted data has nearly every class in every partition") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const auto &partition : even(1000, 10, seed)) {
      std::set<std::uint64_t> classes;
      for (const std::uint64_t index : partition) classes.insert(index / 100);
      CHECK(classes.size() >= 9);
    }
  }
}
