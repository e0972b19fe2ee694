// The limits of parsyn that its users may meet, by name. What exceeds one is refused with
// ErrorCode::too_large, or with a fault that says the limit; or, where a line here says so, it is thinned,
// shortened or dropped.
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
inline constexpr std::uint32_t kEventsPerJobMax = 100'000;  ///< Older ones are dropped: a gap in the numbers.
inline constexpr std::uint32_t kProgressEventsPerJobMax = 20'000;  ///< Of worker_progress, beside the others.
inline constexpr std::uint32_t kKeepRoundsDefault = 3;  ///< Global models of the newest rounds that are kept.
inline constexpr std::uint32_t kLossesPerHeartbeatMax = 10'000;
inline constexpr double kExamplesPerSecondMax = 1e12;  ///< A worker that tells more is taken to tell none.
inline constexpr std::uint32_t kLossesPerWorkerRoundMax = 2'000;  ///< Kept by thinning evenly.
inline constexpr std::uint32_t kLossesKeptPerWorkerRound = 256;   ///< The same, in the journal.
inline constexpr std::uint32_t kLossSeriesPerJobMax = 10'000;     ///< In memory; the oldest are dropped.
inline constexpr std::uint32_t kLossesPerPage = 100'000;  ///< A page ends with the series that reaches it.

// Weights
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  ///< The format's own limit.
inline constexpr std::uint64_t kPeerHeaderBytesMax = 16ULL << 20;  ///< For a header that a worker sent.
inline constexpr std::uint64_t kTensorsMax = 1'000'000;
inline constexpr std::uint64_t kTensorNameBytesMax = 1'024;
inline constexpr std::uint32_t kTensorRankMax = 16;
inline constexpr std::uint64_t kUpdateBytesMax = 1ULL << 40;
inline constexpr std::uint32_t kOpenUpdatesMax =
    32;  ///< That an average keeps open; further ones are opened for each read.
inline constexpr std::uint64_t kBlockElements = 1ULL << 18;  ///< One block of one tensor while aggregating.

// Datasets
inline constexpr std::uint64_t kDatasetBytesMax = 64ULL << 30;       ///< Of one file, after unpacking.
inline constexpr std::uint64_t kDatasetLineBytesMax = 256ULL << 20;  ///< One record of CSV or JSON Lines.
inline constexpr std::uint64_t kDatasetExamplesMax = 1ULL << 33;

// Objects
inline constexpr std::uint32_t kObjectKeyBytesMax = 1'024;
inline constexpr std::uint32_t kObjectKeySegmentBytesMax =
    200;  ///< Leaves room for a temporary file's suffix.

// Workers
inline constexpr std::uint64_t kWorkerCacheBytesMax = 50ULL
                                                      << 30;  ///< Objects that a worker keeps on its disk.

// HTTP
inline constexpr std::uint64_t kOperatorTokenBytesMin = 16;
inline constexpr std::uint64_t kHttpHeaderBytesMax = 64ULL << 10;
inline constexpr std::uint64_t kHttpJsonBytesMax = 4ULL << 20;
inline constexpr std::uint32_t kJsonDepthMax = 64;
inline constexpr std::uint32_t kHttpConnectionsMax = 10'000;
inline constexpr std::uint64_t kHttpDrainBytesMax =
    8ULL << 20;  ///< Read over of a refused body, so that its sender comes to read the answer.
inline constexpr std::uint64_t kTransferRateMin = 1ULL
                                                  << 10;  ///< Bytes a second of a request's body, on average.
inline constexpr std::uint32_t kPartialUploadsMax =
    256;  ///< Kept of uploads that broke off; over it, those that have been idle longest begin anew.
inline constexpr std::uint64_t kStreamQueueBytesMax =
    4ULL << 20;  ///< Of a stream of events whose reader is slow; over it, the stream is cut.
inline constexpr std::uint32_t kPageSizeDefault = 50;
inline constexpr std::uint32_t kPageSizeMax = 500;

// Time
inline constexpr std::chrono::milliseconds kHeartbeatInterval{5'000};
inline constexpr std::chrono::milliseconds kProgressInterval{500};  ///< At most so often, while training.
inline constexpr std::chrono::milliseconds kLeaseDuration{15'000};
inline constexpr std::chrono::milliseconds kStallTimeout{
    120'000};  ///< Of a worker's task: in one phase, without one step.
inline constexpr std::chrono::milliseconds kJoinWindow{5'000};
inline constexpr std::chrono::milliseconds kLongPoll{25'000};
inline constexpr std::chrono::milliseconds kUrlLifetime{900'000};
inline constexpr std::chrono::milliseconds kPartialUploadLifetime{
    900'000};  ///< Of an upload that broke off, since its last byte.
inline constexpr std::chrono::milliseconds kEvaluationTimeout{600'000};
inline constexpr std::chrono::milliseconds kTransferIdleTimeout{30'000};  ///< Without one byte of progress.
inline constexpr std::chrono::milliseconds kTransferGrace{
    30'000};  ///< For which a body may be slower than kTransferRateMin.
inline constexpr std::chrono::milliseconds kHttpHeaderTimeout{
    10'000};  ///< Of a TLS handshake; and of a header, from its first byte.
inline constexpr std::chrono::milliseconds kHttpKeepAlive{75'000};  ///< Of a connection between two requests.
inline constexpr std::chrono::milliseconds kEventsKeepAlive{
    15'000};  ///< How often a stream of events without news says that it is still there.
inline constexpr std::chrono::milliseconds kHttpDrainIdleTimeout{
    1'000};  ///< Of a refused body: without one byte of it.
inline constexpr std::chrono::milliseconds kHttpDrainTime{10'000};  ///< Of a refused body: in all.
inline constexpr std::chrono::milliseconds kConnectTimeout{10'000};
inline constexpr std::chrono::milliseconds kStopBound{
    10'000};  ///< stop() and destructors return within this.
inline constexpr std::chrono::milliseconds kBackoffFirst{200};
inline constexpr std::chrono::milliseconds kBackoffMax{20'000};
inline constexpr std::chrono::milliseconds kFailurePauseFirst{
    2'000};  ///< Of a worker whose task has failed, before its next; doubled at each failure in a row.
inline constexpr std::chrono::milliseconds kRetryAfterMax{
    60'000};  ///< A peer that asks to be left alone for longer is asked again after this.
inline constexpr std::chrono::milliseconds kJournalRetryMax{2'000};  ///< Between tries while it cannot write.
inline constexpr std::chrono::milliseconds kJournalReplyTimeout{
    5'000};  ///< For which a caller waits for a journal that cannot write.
inline constexpr std::chrono::milliseconds kStorageRetryMax{
    30'000};  ///< Between tries of the coordinator's own.
inline constexpr std::chrono::milliseconds kStorageRetryTimeout{
    3'600'000};  ///< Then a round fails whose updates cannot be read or averaged.
inline constexpr std::chrono::milliseconds kClockInterval{
    5'000};  ///< How often the time that remains of a deadline is kept.

static_assert(kLeaseDuration >= 2 * kHeartbeatInterval, "one lost heartbeat must not end a lease");
static_assert(kProgressInterval <= kHeartbeatInterval);
static_assert(kHttpJsonBytesMax <= kHttpDrainBytesMax, "a body that any route takes is read over, too");
static_assert(kHttpDrainTime <= kTransferIdleTimeout);
static_assert(kJournalReplyTimeout + kJournalRetryMax < kStopBound,
              "a request that waits must not hold up a stop");
static_assert(kBackoffFirst <= kBackoffMax);
static_assert(kPeerHeaderBytesMax <= kSafetensorsHeaderBytesMax);
static_assert(kDatasetLineBytesMax <= kDatasetBytesMax);
static_assert(kObjectKeySegmentBytesMax <= kObjectKeyBytesMax);
static_assert(kPageSizeDefault <= kPageSizeMax);

}  // namespace parsyn::limits
