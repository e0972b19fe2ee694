// The ranges of a job's whole numbers, for check_job_config and for whoever reads them from a document, so
// that both refuse with one sentence.
//
// Thread-safety: constants and free functions without state.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "parsyn/limits.hpp"

namespace parsyn::core {

/// Both ends belong to it.
struct WholeRange {
  std::uint64_t min = 0;
  std::uint64_t max = UINT64_MAX;

  constexpr bool holds(std::uint64_t value) const { return value >= min && value <= max; }
};

inline constexpr WholeRange kIdRange{1, UINT64_MAX};
inline constexpr WholeRange kEpochsRange{1, limits::kEpochsMax};
inline constexpr WholeRange kBatchSizeRange{1, limits::kBatchSizeMax};
inline constexpr WholeRange kWarmupStepsRange{0,
                                              std::uint64_t{limits::kRoundsMax} * limits::kStepsPerRoundMax};
inline constexpr WholeRange kLoraRankRange{1, 1'024};
inline constexpr WholeRange kThreadsRange{1, 1'024};
inline constexpr WholeRange kPatienceRange{1, limits::kRoundsMax};
inline constexpr WholeRange kRoundsRange{1, limits::kRoundsMax};
inline constexpr WholeRange kStepsPerRoundRange{1, limits::kStepsPerRoundMax};
inline constexpr WholeRange kWorkersRange{1, limits::kWorkersPerRoundMax};
inline constexpr WholeRange kAggregationTimeoutRange{1, limits::kAggregationTimeoutSecondsMax};
inline constexpr WholeRange kFaultToleranceRange{0, limits::kFaultToleranceMax};
inline constexpr WholeRange kShardsRange{1, 10'000};

/// Training computes in 32-bit floats: a larger rate would be infinite there.
inline constexpr double kLearningRateMax = std::numeric_limits<float>::max();

/// "is 0; it must be a whole number from 1 to 1000000". `value` is the number as it was written.
std::string range_message(std::string_view value, const WholeRange &range);

}  // namespace parsyn::core
