#include "worker/backoff.hpp"

#include <set>

#include "support/catch.hpp"

using namespace parsyn;
using parsyn::worker::Backoff;
using std::chrono::milliseconds;

namespace {

/// Waits out one series of tries.
std::vector<std::int64_t> waits(Backoff &backoff, int tries, milliseconds asked_for = {}) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < tries; ++i) counts.push_back(backoff.next(asked_for).count());
  return counts;
}

}  // namespace

TEST_CASE("waits double up to their bound, and no two workers wait alike") {
  const std::vector<std::int64_t> bounds{10, 20, 40, 80, 100, 100};
  std::set<std::vector<std::int64_t>> series;
  for (int worker = 0; worker < 50; ++worker) {
    Backoff backoff(milliseconds(10), milliseconds(100), system::system_runtime());
    const auto seen = waits(backoff, 6);
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      CHECK(seen[i] >= bounds[i] / 2);
      CHECK(seen[i] <= bounds[i]);
    }
    series.insert(seen);
    backoff.reset();
    CHECK(waits(backoff, 1).front() <= 10);
  }
  CHECK(series.size() > 40);
}

TEST_CASE("a peer that asks to be left alone is left alone for longer, not in step with the others") {
  std::set<std::int64_t> first;
  for (int worker = 0; worker < 50; ++worker) {
    Backoff backoff(milliseconds(100), milliseconds(200), system::system_runtime());
    const auto seen = waits(backoff, 2, milliseconds(5'000));
    CHECK(seen[0] >= 5'050);
    CHECK(seen[0] <= 5'100);
    CHECK(seen[1] >= 5'100);
    CHECK(seen[1] <= 5'200);
    first.insert(seen[0]);
  }
  CHECK(first.size() > 10);
}
