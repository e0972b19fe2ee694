// The ordered events of one job, bounded, with subscribers who are told that there is something new.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "parsyn/status.hpp"

namespace parsyn::coordinator {

/// Someone who wants to know of new events. Destroying the handle waits for a running call.
class Subscription {
 public:
  explicit Subscription(std::function<void()> notify) : notify_(std::move(notify)) {}
  void call() {
    // Recursive: a subscriber may give up its own handle from within its call.
    const std::lock_guard lock(mutex_);
    if (notify_) notify_();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    notify_ = nullptr;
  }

 private:
  std::recursive_mutex mutex_;
  std::function<void()> notify_;  // guarded by mutex_
};

/// Not thread-safe: the coordinator's lock guards it.
class EventLog {
 public:
  /// Gives the event its sequence; the oldest is dropped beyond limits::kEventsPerJobMax.
  const Event &append(Event event);
  std::vector<Event> after(std::uint64_t sequence, std::size_t count_max) const;

  /// A handle: when it goes, `notify` is not called again.
  std::shared_ptr<void> subscribe(std::function<void()> notify);
  std::vector<std::shared_ptr<Subscription>> subscribers();

 private:
  std::uint64_t last_sequence_ = 0;
  std::deque<Event> events_;
  std::vector<std::weak_ptr<Subscription>> subscribers_;
};

}  // namespace parsyn::coordinator
