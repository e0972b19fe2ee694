#include "coordinator/loss_log.hpp"

#include "parsyn/limits.hpp"

namespace parsyn::coordinator {

void LossLog::add(Id worker, std::uint32_t round, std::uint64_t first_step,
                  const std::vector<double> &losses) {
  Series &series = series_[{round, worker}];
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const std::uint64_t step = first_step + i;
    if (step <= series.last_step) {
      if (step != 1 || i != 0) continue;
      series = Series{};  // the worker has started the round anew
    }
    series.last_step = step;
    series.last_loss = losses[i];
    if ((step - 1) % series.stride != 0) continue;
    series.losses.emplace_back(step, losses[i]);
    if (series.losses.size() < limits::kLossesPerWorkerRoundMax) continue;
    series.stride *= 2;
    std::erase_if(series.losses, [&](const auto &entry) { return (entry.first - 1) % series.stride != 0; });
  }
  if (series_.size() > limits::kLossSeriesPerJobMax) series_.erase(series_.begin());
}

std::vector<LossSeries> LossLog::page(const LossPlace &after, std::uint32_t last_round,
                                      std::size_t count_max) const {
  LossPage page(count_max);
  for (auto next = series_.upper_bound({after.round, after.worker_id});
       next != series_.end() && next->first.first <= last_round && !page.is_full(); ++next) {
    page.add({next->first.second, next->first.first, next->second.losses});
  }
  return page.take();
}

LossSeries LossLog::thinned(Id worker, std::uint32_t round, std::size_t count_max) const {
  LossSeries thin{worker, round, {}};
  const auto found = series_.find({round, worker});
  if (found == series_.end()) return thin;
  const auto &losses = found->second.losses;
  const std::size_t stride = losses.size() / count_max + 1;
  for (std::size_t i = 0; i < losses.size(); i += stride) thin.losses.push_back(losses[i]);
  return thin;
}

void LossLog::restore(const LossSeries &kept) {
  if (kept.losses.empty()) return;
  Series &series = series_[{kept.round, kept.worker_id}];
  series.losses = kept.losses;
  series.last_step = kept.losses.back().first;
  series.last_loss = kept.losses.back().second;
  if (series_.size() > limits::kLossSeriesPerJobMax) series_.erase(series_.begin());
}

void LossLog::clear_but_last(std::uint32_t round) {
  std::erase_if(series_, [&](const auto &entry) { return entry.first.first != round; });
  for (auto &[key, series] : series_) series.losses = {};
}

std::optional<double> LossLog::last(Id worker, std::uint32_t round) const {
  const auto found = series_.find({round, worker});
  if (found == series_.end() || found->second.last_step == 0) return std::nullopt;
  return found->second.last_loss;
}

}  // namespace parsyn::coordinator
