#include "transport/event_streams.hpp"

#include <atomic>
#include <chrono>
#include <vector>

#include "parsyn/error.hpp"
#include "wire/resource_json.hpp"

namespace parsyn::transport {
namespace {

constexpr std::size_t kEventsPerWrite = 256;
constexpr std::chrono::seconds kKeepAlive{15};

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

EventStreams::EventStreams(Coordinator &coordinator)
    : coordinator_(coordinator), thread_([this] { run(); }) {}

EventStreams::~EventStreams() { stop(); }

void EventStreams::add(Id job, std::uint64_t after, http::Responder responder) {
  const auto stream = std::make_shared<Stream>(job, after, std::move(responder));
  const std::weak_ptr<Stream> weak = stream;
  stream->subscription = coordinator_.subscribe(job, [this, weak] {
    const auto live = weak.lock();
    if (!live) return;
    live->news = true;
    const std::lock_guard lock(mutex_);
    news_ = true;
    changed_.notify_one();
  });
  stream->responder.start_stream(
      200,
      {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}});
  stream->responder.on_done([weak] {
    if (const auto live = weak.lock()) live->gone = true;
  });
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
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
  auto next_keep_alive = std::chrono::steady_clock::now() + kKeepAlive;
  for (;;) {
    std::vector<std::shared_ptr<Stream>> streams;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, next_keep_alive, [this] { return stopping_ || news_; });
      news_ = false;
      if (stopping_) break;
      streams.assign(streams_.begin(), streams_.end());
    }
    const auto now = std::chrono::steady_clock::now();
    const bool keep_alive = now >= next_keep_alive;
    if (keep_alive) next_keep_alive = now + kKeepAlive;
    for (const auto &stream : streams) {
      if (!stream->news.exchange(false) && !keep_alive && !stream->gone) continue;
      if (pump(*stream, keep_alive)) continue;
      stream->subscription.reset();
      const std::lock_guard lock(mutex_);
      streams_.remove(stream);
    }
  }
  std::list<std::shared_ptr<Stream>> rest;
  {
    const std::lock_guard lock(mutex_);
    rest.swap(streams_);
  }
  for (const auto &stream : rest) {
    stream->subscription.reset();
    stream->responder.end_stream();
  }
}

bool EventStreams::pump(Stream &stream, bool keep_alive) {
  if (stream.gone) return false;
  try {
    // Asked first: events that come after it belong to a job that had ended already, and there are none.
    const bool ended = is_terminal(coordinator_.job_state(stream.job));
    for (;;) {
      const std::vector<Event> events = coordinator_.events_after(stream.job, stream.after, kEventsPerWrite);
      if (events.empty()) break;
      std::string text;
      for (const Event &event : events) text += entry_of(event);
      if (!stream.responder.write(std::move(text))) return false;
      stream.after = events.back().sequence;
    }
    if (ended) {
      stream.responder.end_stream();
      return false;
    }
    return !keep_alive || stream.responder.write(": still here\n\n");
  } catch (const Error &) {
    stream.responder.end_stream();
    return false;
  }
}

}  // namespace parsyn::transport
