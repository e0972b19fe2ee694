// Names that both sides of HTTP use: the worker protocol's URL paths, and headers.
#pragma once

namespace parsyn::transport {

inline constexpr char kSessionPath[] = "/api/v1/worker/session";
inline constexpr char kTaskPath[] = "/api/v1/worker/task";
inline constexpr char kReportPath[] = "/api/v1/worker/report";
inline constexpr char kHeartbeatPath[] = "/api/v1/worker/heartbeat";
inline constexpr char kUrlPath[] = "/api/v1/worker/url";
inline constexpr char kObjectsPath[] = "/api/v1/objects/";

/// The header that says how many bytes of an upload are there.
inline constexpr char kUploadOffset[] = "Upload-Offset";

/// The header of an event stream that says what its job's newest event was when it began.
inline constexpr char kLastEvent[] = "Last-Event-ID";

/// The header of a job's model that says after which round the job had it; 0: the initial one.
inline constexpr char kModelRound[] = "X-Parsyn-Round";

/// The fault code of a signed URL that must be asked for again: its time is over, or it was signed before the
/// coordinator was started again.
inline constexpr char kUrlExpired[] = "url_expired";

}  // namespace parsyn::transport
