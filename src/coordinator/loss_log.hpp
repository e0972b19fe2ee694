// Losses by worker, round and step, thinned evenly where a series grows long.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "parsyn/status.hpp"

namespace parsyn::coordinator {

/// Not thread-safe: the coordinator's lock guards it.
class LossLog {
 public:
  /// Losses of consecutive steps from `first_step`; those that the series already has are passed over.
  void add(Id worker, std::uint32_t round, std::uint64_t first_step, const std::vector<double> &losses);
  /// Of one round, or all, by round and worker.
  std::vector<LossSeries> series(std::optional<std::uint32_t> round) const;
  /// One worker's in one round, thinned evenly to at most `count_max` points.
  LossSeries thinned(Id worker, std::uint32_t round, std::size_t count_max) const;
  void restore(const LossSeries &series);
  std::optional<double> last(Id worker, std::uint32_t round) const;

 private:
  struct Series {
    std::uint64_t stride = 1;  // one of so many steps is kept
    std::uint64_t last_step = 0;
    double last_loss = 0;
    std::vector<std::pair<std::uint64_t, double>> losses;
  };
  std::map<std::pair<std::uint32_t, Id>, Series> series_;  // by (round, worker)
};

}  // namespace parsyn::coordinator
