// A job's event stream over connections that may break: each event once, in order.
//
// Thread-safety: of one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "job/event_parser.hpp"
#include "job/rest_client.hpp"

namespace parsyn::programs {

struct FollowOptions {
  std::uint64_t job = 0;
  std::function<void(const StreamEvent &)> on_event;
  /// At most ten times a second; whether the coordinator is away. False ends following.
  std::function<bool(bool)> on_tick;
  /// A sentence when the coordinator is away and is tried for again, once and then every
  /// reminder_interval; and one when it is back.
  std::function<void(const std::string &)> on_trouble;
  std::chrono::milliseconds reminder_interval = std::chrono::minutes(1);
  /// False: no other try is made, and Error(unavailable) or Error(timeout) says why.
  bool tries_again = true;
};

/// Returns when the server has ended the stream, which it does when the job has ended, or when on_tick says
/// so. Where it tries again, it does so without end. Throws Error: unauthorized, not_found,
/// cancelled (after RestClient::interrupt).
void follow_events(RestClient &client, const FollowOptions &options);

}  // namespace parsyn::programs
