// Waiting for what another thread does, with an end to every wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "support/eventually.hpp"

namespace parsyn::test {

/// Something that happens, perhaps several times.
class Event {
 public:
  void happen() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }

  /// Whether it has happened `times` times, waiting for it if need be.
  bool wait(std::size_t times = 1, std::chrono::milliseconds patience = kEventPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return count_ >= times; });
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

/// Values that one thread makes and another waits for.
template <typename Value>
class Mailbox {
 public:
  void put(Value value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    changed_.notify_all();
  }

  /// All of them, once there are `count` or the patience is over.
  std::vector<Value> wait(std::size_t count = 1, std::chrono::milliseconds patience = kEventPatience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return values_.size() >= count; });
    return values_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Value> values_;
};

}  // namespace parsyn::test
