// The one exception type of parsyn, and the faults that it carries.
//
// Every public function that can fail throws parsyn::Error and nothing else (std::bad_alloc aside). The code
// alone decides what a program does; the message says what happened, where, and what to do about it. Input
// with several faults is refused once, with all of them in faults().
//
// Thread-safety: values, as safe as any std type.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parsyn {

/// Codes are part of the contract: never renumbered, only added to.
enum class ErrorCode : std::int32_t {
  ok = 0,
  invalid_argument = 1,  ///< The caller's input is wrong; the same call fails again.
  not_found = 2,         ///< No such job, worker, dataset, model, object or file.
  conflict = 3,          ///< The state forbids it: a terminal job, a superseded lease, a taken name.
  unauthorized = 4,      ///< No token, or not a valid one.
  forbidden = 5,         ///< A valid token, but not for this.
  too_large = 6,         ///< A limit of limits.hpp is exceeded.
  timeout = 7,           ///< A peer made no progress within its bound.
  cancelled = 8,         ///< The call was interrupted by stop() or interrupt().
  unavailable = 9,       ///< The peer is away or overloaded; the same call may succeed later.
  corrupt_data = 10,     ///< Bytes that do not match their digest or their format.
  io = 11,               ///< The operating system refused a file operation.
  unsupported = 12,      ///< A feature that this build, worker or device does not have.
  protocol = 13,         ///< The peer speaks another version, or breaks the protocol.
  internal = 14,         ///< A bug of parsyn.
};

/// The stable text of a code, as REST problem documents carry it ("invalid_argument").
constexpr std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::ok:
      return "ok";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::unauthorized:
      return "unauthorized";
    case ErrorCode::forbidden:
      return "forbidden";
    case ErrorCode::too_large:
      return "too_large";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::corrupt_data:
      return "corrupt_data";
    case ErrorCode::io:
      return "io";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::protocol:
      return "protocol";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

/// One thing that is wrong with an input.
struct Fault {
  /// Dotted path of the field, e.g. "distributed.min_workers"; empty: the whole input.
  std::string field = {};
  /// Stable and machine-readable: "type", "range", "unknown_field", "unknown_id", ...
  std::string code = {};
  std::string message = {};  ///< What is wrong, with the value, and what is right.

  bool operator==(const Fault &) const = default;
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::vector<Fault> faults = {})
      : code_(code), message_(std::move(message)), faults_(std::move(faults)) {}

  ErrorCode code() const noexcept { return code_; }
  const char *what() const noexcept override { return message_.c_str(); }
  const std::string &message() const noexcept { return message_; }
  const std::vector<Fault> &faults() const noexcept { return faults_; }
  /// Of `unavailable`: how long the peer asks to be left alone before the same call; 0: it has not said.
  std::chrono::milliseconds retry_after() const noexcept { return retry_after_; }
  void set_retry_after(std::chrono::milliseconds wait) noexcept { retry_after_ = wait; }

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<Fault> faults_;
  std::chrono::milliseconds retry_after_{0};
};

}  // namespace parsyn
