// The ordered events of one job, bounded, with subscribers who are told that there is something new.
//
// Progress comes often and is worth little later: it has a bound of its own, is not journaled, and never
// pushes out what happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "parsyn/status.hpp"

namespace parsyn::coordinator {

inline constexpr std::string_view kProgressEvent = "worker_progress";

/// Sequences that are set aside at once, so that progress, which is not kept, never costs a write.
inline constexpr std::uint64_t kEventSequenceBlock = 10'000;

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
  /// Gives the event its sequence; the oldest of its kind is dropped beyond limits::kEventsPerJobMax, or
  /// kProgressEventsPerJobMax.
  const Event &append(Event event);
  /// Takes back what was kept, in order; sequences go on after `ceiling`.
  void restore(std::deque<Event> events, std::uint64_t ceiling);
  std::vector<Event> after(std::uint64_t sequence, std::size_t count_max) const;
  /// The events go, their number and who has subscribed stay.
  void clear();
  std::uint64_t last_sequence() const { return last_sequence_; }
  /// Of those that are there: after a restart, sequences go on higher. 0: none.
  std::uint64_t newest() const;
  /// Of the oldest one that is no progress; 0: none.
  std::uint64_t first_kept() const { return events_.empty() ? 0 : events_.front().sequence; }

  /// A handle: when it goes, `notify` is not called again.
  std::shared_ptr<void> subscribe(std::function<void()> notify);
  std::vector<std::shared_ptr<Subscription>> subscribers();

 private:
  std::uint64_t last_sequence_ = 0;
  std::deque<Event> events_;
  std::deque<Event> progress_;
  std::vector<std::weak_ptr<Subscription>> subscribers_;
};

}  // namespace parsyn::coordinator
