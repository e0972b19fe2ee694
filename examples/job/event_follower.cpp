#include "job/event_follower.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include "parsyn/error.hpp"

namespace parsyn::programs {
namespace {

constexpr std::chrono::milliseconds kBackoffFirst{200};
constexpr std::chrono::milliseconds kBackoffMax{5'000};
constexpr std::chrono::milliseconds kPauseStep{100};

bool has_ended(RestClient &client, std::uint64_t job) {
  const Json document = client.get(path_of(Resource::job, job));
  const std::string state = text_at(document, "state");
  return state == "completed" || state == "failed" || state == "stopped" || state == "cancelled";
}

}  // namespace

void follow_events(RestClient &client, const FollowOptions &options) {
  bool goes_on = true;
  auto backoff = kBackoffFirst;
  EventParser parser(options.on_event);
  while (goes_on) {
    parser.reset();
    http::HttpClientRequest request = client.request("GET", path_of(Resource::job, options.job) + "/events");
    request.headers["Accept"] = "text/event-stream";
    if (!parser.last_id().empty()) request.headers["Last-Event-ID"] = parser.last_id();
    request.progress = [&](std::uint64_t, std::uint64_t) { return goes_on = options.on_tick(); };
    request.on_body = [&](std::string_view piece) {
      backoff = kBackoffFirst;
      parser.feed(piece);
      return goes_on = options.on_tick();
    };
    std::string trouble;
    try {
      client.perform(request);
      // A server that stops ends its streams, too: only the job's state tells which it was.
      if (!goes_on || has_ended(client, options.job)) return;
      throw Error(ErrorCode::unavailable, "the coordinator ended the stream");
    } catch (const Error &error) {
      if (!goes_on) return;
      const bool may_pass = error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout;
      if (!may_pass || !options.tries_again) throw;
      trouble = error.message();
    }
    options.on_trouble(trouble + "; trying again");
    for (auto waited = std::chrono::milliseconds(0); waited < backoff && goes_on; waited += kPauseStep) {
      std::this_thread::sleep_for(kPauseStep);
      goes_on = options.on_tick();
    }
    backoff = std::min(backoff * 2, kBackoffMax);
  }
}

}  // namespace parsyn::programs
