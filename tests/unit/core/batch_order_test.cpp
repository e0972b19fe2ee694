#include <algorithm>
#include <cstdint>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/trainer.hpp"
#include "support/catch.hpp"

namespace {

using Positions = std::vector<std::uint64_t>;

Positions stream(parsyn::BatchOrder &order, std::uint64_t steps) {
  Positions all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Positions &batch = order.batch(step);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

Positions slice(const Positions &positions, std::ptrdiff_t first, std::ptrdiff_t count) {
  return {positions.begin() + first, positions.begin() + first + count};
}

}  // namespace

TEST_CASE("A batch's examples are the same on every platform for one seed, worker and step") {
  // Computed with an independent implementation of MT19937-64 and SplitMix64.
  const Positions epoch_0{0, 7, 5, 1, 8, 3, 2, 9, 4, 6};
  const Positions epoch_1{1, 4, 8, 2, 6, 0, 7, 9, 3, 5};
  const Positions epoch_2{7, 0, 9, 5, 8, 4, 1, 2, 6, 3};
  parsyn::BatchOrder order(10, 5, 42, 1);
  const Positions all = stream(order, 6);
  CHECK(slice(all, 0, 10) == epoch_0);
  CHECK(slice(all, 10, 10) == epoch_1);
  CHECK(slice(all, 20, 10) == epoch_2);

  parsyn::BatchOrder other_worker(10, 10, 42, 2);
  CHECK(other_worker.batch(0) == Positions{2, 0, 6, 5, 1, 7, 4, 9, 8, 3});
  parsyn::BatchOrder other_seed(10, 10, 43, 1);
  CHECK(other_seed.batch(0) == Positions{3, 7, 8, 5, 9, 2, 4, 0, 6, 1});
}

TEST_CASE("A batch that crosses the end of an epoch goes on in the next") {
  parsyn::BatchOrder order(10, 4, 42, 1);
  CHECK(order.batch(2) == Positions{4, 6, 1, 4});
  CHECK(order.batch(3) == Positions{8, 2, 6, 0});
  CHECK(order.batch_examples() == 4);
}

TEST_CASE("Every example is passed once in an epoch, none is dropped") {
  for (const std::uint32_t batch_size : {1U, 3U, 7U, 64U}) {
    parsyn::BatchOrder order(65, batch_size, 7, 3);
    const std::uint64_t steps = 65 * 3 / order.batch_examples() + 1;
    const Positions all = stream(order, steps);
    for (std::ptrdiff_t epoch = 0; epoch < 3; ++epoch) {
      Positions seen = slice(all, epoch * 65, 65);
      std::sort(seen.begin(), seen.end());
      for (std::uint64_t i = 0; i < 65; ++i) REQUIRE(seen[static_cast<std::size_t>(i)] == i);
    }
  }
}

TEST_CASE("fault 57: a batch depends on seed, worker and step only, so that a round can be repeated") {
  parsyn::BatchOrder order(9, 4, 5, 2);
  const Positions late = order.batch(11);
  const Positions early = order.batch(0);
  CHECK(order.batch(11) == late);
  parsyn::BatchOrder restarted(9, 4, 5, 2);
  CHECK(restarted.batch(11) == late);
  CHECK(restarted.batch(0) == early);
  CHECK(late != early);
}

TEST_CASE("A batch larger than the partition is the whole partition") {
  parsyn::BatchOrder order(3, 32, 1, 1);
  CHECK(order.batch_examples() == 3);
  for (std::uint64_t step = 0; step < 10; ++step) {
    Positions batch = order.batch(step);
    std::sort(batch.begin(), batch.end());
    CHECK(batch == Positions{0, 1, 2});
  }
}

TEST_CASE("An empty partition or batch, and a step beyond 2^64 examples, are refused") {
  CHECK_THROWS_AS(parsyn::BatchOrder(0, 4, 1, 1), parsyn::Error);
  CHECK_THROWS_AS(parsyn::BatchOrder(4, 0, 1, 1), parsyn::Error);
  parsyn::BatchOrder order(4, 4, 1, 1);
  CHECK_THROWS_AS(order.batch(UINT64_MAX), parsyn::Error);
}
