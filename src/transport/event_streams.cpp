#include "transport/event_streams.hpp"

#include <atomic>
#include <chrono>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "system/log_exception.hpp"
#include "transport/paths.hpp"
#include "wire/resource_json.hpp"

namespace parsyn::transport {
namespace {

constexpr std::size_t kEventsPerWrite = 256;
/// Far less than may wait for a slow reader: few long events are a write of their own.
constexpr std::size_t kWriteBytes = 64 << 10;
constexpr std::chrono::seconds kPauseAfterFailure{1};

std::string entry_of(const Event &event) {
  return "id: " + std::to_string(event.sequence) + "\nevent: " + event.type +
         "\ndata: " + wire::event_json(event) + "\n\n";
}

}  // namespace

struct EventStreams::Stream {
  Stream(Id id, std::uint64_t sequence, http::Responder to)
      : job(id), after(sequence), responder(std::move(to)) {}
  const Id job;
  std::uint64_t after;
  http::Responder responder;
  std::atomic<bool> news{true};
  std::atomic<bool> gone{false};
  std::shared_ptr<void> subscription;
};

EventStreams::EventStreams(Coordinator &coordinator, LogSink log)
    : coordinator_(coordinator), log_(std::move(log)), thread_([this] { run(); }) {}

EventStreams::~EventStreams() { stop(); }

void EventStreams::add(Id job, std::uint64_t after, http::Responder responder) {
  const auto stream = std::make_shared<Stream>(job, after, std::move(responder));
  const std::weak_ptr<Stream> weak = stream;
  stream->subscription = coordinator_.subscribe(job, [this, weak] {
    if (const auto live = weak.lock()) wake(*live);
  });
  stream->responder.start_stream(200, {{"Content-Type", "text/event-stream"},
                                       {"Cache-Control", "no-store"},
                                       {"X-Accel-Buffering", "no"},
                                       {kLastEvent, std::to_string(coordinator_.last_event(job))}});
  stream->responder.on_done([weak] {
    if (const auto live = weak.lock()) live->gone = true;
  });
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  news_ = true;
  changed_.notify_one();
}

void EventStreams::wake(Stream &stream) {
  stream.news = true;
  const std::lock_guard lock(mutex_);
  news_ = true;
  changed_.notify_one();
}

void EventStreams::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  std::call_once(joined_, [this] { thread_.join(); });
}

void EventStreams::run() {
  auto next_keep_alive = std::chrono::steady_clock::now() + limits::kEventsKeepAlive;
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = serve(next_keep_alive);
    } catch (...) {
      system::log_exception(log_, "events.failed", "a look at the event streams");
      // All of them are looked at again, as at a keep-alive.
      next_keep_alive = std::chrono::steady_clock::now() + kPauseAfterFailure;
    }
  }
  std::list<std::shared_ptr<Stream>> rest;
  {
    const std::lock_guard lock(mutex_);
    rest.swap(streams_);
  }
  for (const auto &stream : rest) end(*stream);
}

bool EventStreams::serve(std::chrono::steady_clock::time_point &next_keep_alive) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, next_keep_alive, [this] { return stopping_ || news_; });
    news_ = false;
    if (stopping_) return false;
    streams.assign(streams_.begin(), streams_.end());
  }
  const auto now = std::chrono::steady_clock::now();
  const bool keep_alive = now >= next_keep_alive;
  if (keep_alive) next_keep_alive = now + limits::kEventsKeepAlive;
  for (const auto &stream : streams) {
    if (!stream->news.exchange(false) && !keep_alive && !stream->gone) continue;
    if (pump(stream, keep_alive)) continue;
    end(*stream);
    const std::lock_guard lock(mutex_);
    streams_.remove(stream);
  }
  return true;
}

void EventStreams::end(Stream &stream) noexcept {
  stream.subscription.reset();
  try {
    stream.responder.end_stream();
  } catch (...) {
    system::log_exception(log_, "events.failed", "the end of an event stream");
  }
}

bool EventStreams::pump(const std::shared_ptr<Stream> &of, bool keep_alive) {
  Stream &stream = *of;
  if (stream.gone) return false;
  try {
    // Asked first: events that come after it belong to a job that had ended already, and there are none.
    const bool ended = is_terminal(coordinator_.job_state(stream.job));
    for (;;) {
      if (stream.responder.is_full()) {
        stream.responder.on_room([this, weak = std::weak_ptr<Stream>(of)] {
          if (const auto live = weak.lock()) wake(*live);
        });
        return true;
      }
      const std::vector<Event> events = coordinator_.events_after(stream.job, stream.after, kEventsPerWrite);
      if (events.empty()) break;
      std::string text;
      std::uint64_t last = stream.after;
      for (const Event &event : events) {
        text += entry_of(event);
        last = event.sequence;
        if (text.size() >= kWriteBytes) break;
      }
      if (!stream.responder.write(std::move(text))) return false;
      stream.after = last;
    }
    if (!ended) return !keep_alive || stream.responder.write(": still here\n\n");
  } catch (const Error &error) {
    // The coordinator may have been stopped.
    if (error.code() != ErrorCode::cancelled) system::log_exception(log_, "events.failed", "an event stream");
  } catch (...) {
    system::log_exception(log_, "events.failed", "an event stream");
  }
  return false;
}

}  // namespace parsyn::transport
