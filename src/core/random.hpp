// parsyn's random draws: the same on every platform, for a split that a seed names is a promise.
//
// Engine: std::mt19937_64, whose output the C++ standard fixes (its 10,000th default output is
// 9981545732273789042). The shuffles and distributions of the standard libraries differ, and are not used.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

namespace parsyn::core {

/// A seed made of several numbers (SplitMix64 finaliser, folded): derive_seed({job seed, round, worker}).
constexpr std::uint64_t derive_seed(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t state = 0;
  for (const std::uint64_t part : parts) {
    state += part + 0x9E3779B97F4A7C15ULL;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    state ^= state >> 31;
  }
  return state;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }

  /// Uniform in [0, bound), bound > 0: the raw output modulo bound, where outputs of the incomplete last run
  /// of `bound` values are drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t incomplete = (UINT64_MAX % bound + 1) % bound;
    for (;;) {
      const std::uint64_t value = bits();
      if (value <= UINT64_MAX - incomplete) return value % bound;
    }
  }

  /// Uniform in [0, 1): the upper 53 bits times 2^-53.
  double unit() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

  /// Fisher-Yates, from the last element down: element i changes places with element below(i + 1).
  template <typename T>
  void shuffle(std::vector<T> &items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      using std::swap;
      swap(items[i - 1], items[static_cast<std::size_t>(below(i))]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace parsyn::core
