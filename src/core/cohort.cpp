#include <algorithm>

#include "core/job.hpp"
#include "core/random.hpp"

namespace parsyn::core {

Cohort choose_cohort(const std::vector<std::pair<Id, std::uint32_t>> &invited_rounds_by_worker,
                     std::uint32_t max, std::uint64_t seed) {
  auto drawn = invited_rounds_by_worker;
  std::ranges::sort(drawn);
  Random random(seed);
  random.shuffle(drawn);
  std::ranges::stable_sort(drawn, {}, [](const auto &entry) { return entry.second; });
  Cohort cohort;
  for (const auto &[worker, rounds] : drawn)
    (cohort.invited.size() < max ? cohort.invited : cohort.standby).push_back(worker);
  std::ranges::sort(cohort.invited);
  return cohort;
}

}  // namespace parsyn::core
