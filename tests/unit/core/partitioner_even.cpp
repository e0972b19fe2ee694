#include <algorithm>
#include <limits>

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

}  // namespace

TEST_CASE("the even partitioner gives the golden splits of docs/partitioning.md") {
  CHECK(even(10, 3, 42) == Partitions{{6, 1, 2, 4}, {5, 7, 3}, {0, 9, 8}});
  CHECK(even(10, 3, 1) == Partitions{{2, 9, 1, 8}, {7, 5, 6}, {4, 0, 3}});
  CHECK(even(7, 3, 0) == Partitions{{5, 2, 3}, {4, 6}, {1, 0}});
  CHECK(make_even_partitioner()->name() == "even");
  CHECK(make_even_partitioner()->version() == 1);
}

TEST_CASE("sizes of an even split differ by at most one, the larger first, and every example is there once") {
  for (const std::uint64_t examples : {1, 2, 5, 64, 100, 997}) {
    for (std::uint32_t count = 1; count <= examples && count <= 64; count += 3) {
      const Partitions partitions = even(examples, count, 5);
      REQUIRE(covers_exactly(partitions, examples));
      const auto sizes = sizes_of(partitions);
      CHECK(std::is_sorted(sizes.rbegin(), sizes.rend()));
      CHECK(sizes.front() - sizes.back() <= 1);
    }
  }
}

TEST_CASE("a request for no partition, or for too many examples, is refused with the numbers") {
  CHECK(error_of([] { even(3, 0, 1); }).code() == ErrorCode::invalid_argument);
  const Error few = error_of([] { even(3, 5, 1); });
  CHECK(few.code() == ErrorCode::invalid_argument);
  CHECK(mentions(few, "3 examples"));
  CHECK(mentions(few, "5 partitions"));
  CHECK(error_of([] { even(UINT64_MAX, 5, 1); }).code() == ErrorCode::too_large);
}

TEST_CASE("the fixed partitioner gives exactly its partitions") {
  const Partitions fixed{{2, 0}, {1}};
  CHECK(make_fixed_partitioner(fixed)->partition({3, 2, 9, {}}) == fixed);
}

TEST_CASE("the fixed partitioner refuses a request that its partitions do not match") {
  const auto refusal = [](const Partitions &partitions, std::uint64_t examples, std::uint32_t count) {
    return error_of([&] { make_fixed_partitioner(partitions)->partition({examples, count, 0, {}}); });
  };
  CHECK(mentions(refusal({{0}, {1}}, 3, 3), "2 are fixed"));
  CHECK(mentions(refusal({{0}, {1}}, 3, 2), "first without a partition is 2"));
  CHECK(mentions(refusal({{0, 3}, {1}}, 3, 2), "example 3"));
  CHECK(mentions(refusal({{0, 1}, {1, 2}}, 3, 2), "already in a partition"));
  CHECK(mentions(refusal({{0, 1, 2}, {}}, 3, 2), "partition 1 is empty"));
}

TEST_CASE("validation examples are the first of a seeded shuffle, and both parts keep the file's order") {
  const ValidationIndices split = validation_indices(20, 0.25, 42);
  CHECK(split.validation == std::vector<std::uint64_t>{3, 8, 12, 13, 18});
  CHECK(split.training == std::vector<std::uint64_t>{0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 14, 15, 16, 17, 19});
}

TEST_CASE("at least one example trains and at least one validates") {
  CHECK(validation_indices(10, 0.001, 1).validation.size() == 1);
  CHECK(validation_indices(10, 0.999, 1).training.size() == 1);
  CHECK(validation_indices(2, 0.5, 1).training.size() == 1);
  CHECK(validation_indices(10, 0.25, 1).validation.size() == 3);
  for (const double fraction : {0.0, 1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(error_of([&] { validation_indices(10, fraction, 1); }).code() == ErrorCode::invalid_argument);
  }
  CHECK(error_of([] { validation_indices(1, 0.5, 1); }).code() == ErrorCode::invalid_argument);
}
