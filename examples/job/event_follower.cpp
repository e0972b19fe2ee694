#include "job/event_follower.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "job/progress_view.hpp"
#include "parsyn/error.hpp"

namespace parsyn::programs {
namespace {

constexpr std::chrono::milliseconds kBackoffFirst{200};
constexpr std::chrono::milliseconds kBackoffMax{5'000};
constexpr std::chrono::milliseconds kPauseStep{100};

bool has_ended(RestClient &client, std::uint64_t job) {
  return is_over(client.get(path_of(Resource::job, job)));
}

/// Says once that the coordinator is away, again when it is for long, and when it is back.
class Absence {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Absence(const FollowOptions &options) : options_(options) {}

  bool lasts() const { return lasts_; }

  void goes_on(const std::string &trouble) {
    const auto now = Clock::now();
    if (lasts_ && now - told_ < options_.reminder_interval) return;
    options_.on_trouble(std::string("the coordinator is ") + (lasts_ ? "still " : "") + "away (" + trouble +
                        "); it is tried for until it is back");
    lasts_ = true;
    told_ = now;
  }

  void ends() {
    if (!lasts_) return;
    lasts_ = false;
    options_.on_trouble("the coordinator is back");
  }

 private:
  const FollowOptions &options_;
  bool lasts_ = false;
  Clock::time_point told_;
};

}  // namespace

void follow_events(RestClient &client, const FollowOptions &options) {
  bool goes_on = true;
  auto backoff = kBackoffFirst;
  Absence absence(options);
  const auto tick = [&] { return goes_on = options.on_tick(absence.lasts()); };
  EventParser parser(options.on_event);
  while (goes_on) {
    parser.reset();
    http::HttpClientRequest request = client.request("GET", path_of(Resource::job, options.job) + "/events");
    request.headers["Accept"] = "text/event-stream";
    if (!parser.last_id().empty()) request.headers["Last-Event-ID"] = parser.last_id();
    request.progress = [&](std::uint64_t, std::uint64_t) { return tick(); };
    request.on_body = [&](std::string_view piece) {
      backoff = kBackoffFirst;
      absence.ends();
      parser.feed(piece);
      return tick();
    };
    std::string trouble;
    try {
      client.perform(request);
      // A server that stops ends its streams, too: only the job's state tells which it was.
      if (!goes_on) return;
      const bool over = has_ended(client, options.job);
      absence.ends();
      if (over) return;
      throw Error(ErrorCode::unavailable, "the coordinator ended the stream");
    } catch (const Error &error) {
      if (!goes_on) return;
      const bool may_pass = error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout;
      if (!may_pass || !options.tries_again) throw;
      trouble = error.message();
    }
    absence.goes_on(trouble);
    for (auto waited = std::chrono::milliseconds(0); waited < backoff && goes_on; waited += kPauseStep) {
      std::this_thread::sleep_for(kPauseStep);
      tick();
    }
    backoff = std::min(backoff * 2, kBackoffMax);
  }
}

}  // namespace parsyn::programs
