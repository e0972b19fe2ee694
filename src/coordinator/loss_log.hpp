// Losses by worker, round and step, thinned evenly where a series grows long.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "parsyn/coordinator.hpp"

namespace parsyn::coordinator {

/// Fills a page until it has `count_max` series, or limits::kLossesPerPage points.
class LossPage {
 public:
  explicit LossPage(std::size_t count_max) : count_max_(count_max) {}
  bool is_full() const { return series_.size() >= count_max_ || points_ >= limits::kLossesPerPage; }
  void add(LossSeries series) {
    points_ += series.losses.size();
    series_.push_back(std::move(series));
  }
  std::vector<LossSeries> take() { return std::move(series_); }

 private:
  std::size_t count_max_;
  std::size_t points_ = 0;
  std::vector<LossSeries> series_;
};

/// Not thread-safe: the coordinator's lock guards it.
class LossLog {
 public:
  /// Losses of consecutive steps from `first_step`; those that the series already has are passed over.
  void add(Id worker, std::uint32_t round, std::uint64_t first_step, const std::vector<double> &losses);
  /// By round and worker, behind `after`, to the end of `last_round`.
  std::vector<LossSeries> page(const LossPlace &after, std::uint32_t last_round, std::size_t count_max) const;
  /// One worker's in one round, thinned evenly to at most `count_max` points.
  LossSeries thinned(Id worker, std::uint32_t round, std::size_t count_max) const;
  void restore(const LossSeries &series);
  /// All but the last loss of each worker in `round` goes.
  void clear_but_last(std::uint32_t round);
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
