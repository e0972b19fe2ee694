// Every limit of parsyn, by name. What exceeds one is refused with ErrorCode::too_large, or with a fault that
// names the limit; nothing is cut silently.
//
// Thread-safety: constants.
#pragma once

#include <chrono>
#include <cstdint>

namespace parsyn::limits {

// Jobs
inline constexpr std::uint32_t kRoundsMax = 1'000'000;
inline constexpr std::uint32_t kStepsPerRoundMax = 100'000'000;
inline constexpr std::uint32_t kEpochsMax = 1'000'000;
inline constexpr std::uint32_t kBatchSizeMax = 16'777'216;
inline constexpr std::uint32_t kWorkersPerRoundMax = 10'000;
inline constexpr std::int64_t kAggregationTimeoutSecondsMax = 30LL * 24 * 3600;
inline constexpr std::uint32_t kFaultToleranceMax = 1'000'000;
inline constexpr std::uint64_t kExamplesPerWorkerMax = std::uint64_t{1} << 31;
inline constexpr std::uint32_t kJobsMax = 100'000;
inline constexpr std::uint32_t kWorkersMax = 100'000;
inline constexpr std::uint32_t kDatasetsMax = 100'000;
inline constexpr std::uint32_t kModelsMax = 100'000;
inline constexpr std::uint32_t kNameBytesMax = 200;         ///< Names of jobs, workers, datasets and models.
inline constexpr std::uint32_t kReasonBytesMax = 2'000;     ///< A peer's sentence: longer ones are shortened.
inline constexpr std::uint32_t kEventsPerJobMax = 100'000;  ///< Older ones are dropped; the stream says so.
inline constexpr std::uint32_t kLossesPerHeartbeatMax = 10'000;
inline constexpr std::uint32_t kLossesPerWorkerRoundMax = 2'000;  ///< Kept by thinning evenly.

// Weights
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  ///< The format's own limit.
inline constexpr std::uint64_t kPeerHeaderBytesMax = 16ULL << 20;  ///< For a header that a worker sent.
inline constexpr std::uint64_t kTensorsMax = 1'000'000;
inline constexpr std::uint64_t kTensorNameBytesMax = 1'024;
inline constexpr std::uint32_t kTensorRankMax = 16;
inline constexpr std::uint64_t kUpdateBytesMax = 1ULL << 40;
inline constexpr std::uint64_t kBlockElements = 1ULL << 18;  ///< One block of one tensor while aggregating.

// Datasets
inline constexpr std::uint64_t kDatasetBytesMax = 64ULL << 30;       ///< Of one file, after unpacking.
inline constexpr std::uint64_t kDatasetLineBytesMax = 256ULL << 20;  ///< One record of CSV or JSON Lines.
inline constexpr std::uint64_t kDatasetExamplesMax = 1ULL << 33;

// Objects
inline constexpr std::uint32_t kObjectKeyBytesMax = 1'024;
inline constexpr std::uint32_t kObjectKeySegmentBytesMax =
    200;  ///< Leaves room for a temporary file's suffix.

// HTTP
inline constexpr std::uint64_t kHttpHeaderBytesMax = 64ULL << 10;
inline constexpr std::uint64_t kHttpJsonBytesMax = 4ULL << 20;
inline constexpr std::uint32_t kJsonDepthMax = 64;
inline constexpr std::uint32_t kHttpConnectionsMax = 10'000;
inline constexpr std::uint32_t kPageSizeDefault = 50;
inline constexpr std::uint32_t kPageSizeMax = 500;

// Time
inline constexpr std::chrono::milliseconds kHeartbeatInterval{5'000};
inline constexpr std::chrono::milliseconds kProgressInterval{500};  ///< At most so often, while training.
inline constexpr std::chrono::milliseconds kLeaseDuration{15'000};
inline constexpr std::chrono::milliseconds kJoinWindow{5'000};
inline constexpr std::chrono::milliseconds kLongPoll{25'000};
inline constexpr std::chrono::milliseconds kUrlLifetime{900'000};
inline constexpr std::chrono::milliseconds kEvaluationTimeout{600'000};
inline constexpr std::chrono::milliseconds kTransferIdleTimeout{30'000};  ///< Without one byte of progress.
inline constexpr std::chrono::milliseconds kConnectTimeout{10'000};
inline constexpr std::chrono::milliseconds kStopBound{
    10'000};  ///< stop() and destructors return within this.
inline constexpr std::chrono::milliseconds kBackoffFirst{200};
inline constexpr std::chrono::milliseconds kBackoffMax{20'000};

static_assert(kLeaseDuration >= 2 * kHeartbeatInterval, "one lost heartbeat must not end a lease");
static_assert(kProgressInterval <= kHeartbeatInterval);
static_assert(kPeerHeaderBytesMax <= kSafetensorsHeaderBytesMax);
static_assert(kDatasetLineBytesMax <= kDatasetBytesMax);
static_assert(kObjectKeySegmentBytesMax <= kObjectKeyBytesMax);
static_assert(kPageSizeDefault <= kPageSizeMax);

}  // namespace parsyn::limits
