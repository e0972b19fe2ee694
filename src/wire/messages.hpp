// The worker protocol's messages as JSON, both ways.
//
// decode_* throw Error(invalid_argument) with every fault at once for whatever is wrong in what a peer sent:
// a missing field, a wrong type, a count that is negative, fractional or too large, a text or list that is
// too long. Fields that are not known are ignored, so that a newer peer of the same protocol version may say
// more. Optional fields may be null or absent. Losses and metrics may be "NaN", "Infinity" or "-Infinity".
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parsyn/transport.hpp"

namespace parsyn::wire {

inline constexpr std::size_t kLocalDatasetsMax = 1'000;  ///< Of one session request.
inline constexpr std::size_t kModelKindsMax = 100;       ///< Of one session request.
inline constexpr std::size_t kKeyBytesMax = 1'024;       ///< Of an object's key.
inline constexpr std::size_t kUrlBytesMax = 16'384;
inline constexpr std::size_t kCancelledTasksMax = 10'000;  ///< Of one heartbeat's answer.

std::string encode(const SessionRequest &request);
/// A request of another protocol version is not read further than its version: the service refuses it by
/// that.
SessionRequest decode_session_request(std::string_view text);

std::string encode(const SessionGrant &grant);
SessionGrant decode_session_grant(std::string_view text);

std::string encode(const TaskPoll &poll);
TaskPoll decode_task_poll(std::string_view text);

/// {"task": {...}} or {"task": null}.
std::string encode(const std::optional<Task> &task);
std::optional<Task> decode_task_answer(std::string_view text);

/// A failure's text is shortened to limits::kReasonBytesMax.
std::string encode(const Report &report);
/// Control characters in a failure's text become spaces.
Report decode_report(std::string_view text);

std::string encode(const ReportReceipt &receipt);
ReportReceipt decode_report_receipt(std::string_view text);

std::string encode(const Heartbeat &heartbeat);
Heartbeat decode_heartbeat(std::string_view text);

std::string encode(const HeartbeatAnswer &answer);
HeartbeatAnswer decode_heartbeat_answer(std::string_view text);

/// Asks for a fresh signed URL of an object that the worker may read (or write) now.
struct UrlRequest {
  std::uint64_t lease = 0;  ///< Must be live: a process that was replaced gets none.
  std::string key;
  bool write = false;
};
std::string encode(const UrlRequest &request);
UrlRequest decode_url_request(std::string_view text);

struct UrlAnswer {
  std::string url;  ///< A secret.
};
std::string encode(const UrlAnswer &answer);
UrlAnswer decode_url_answer(std::string_view text);

}  // namespace parsyn::wire
