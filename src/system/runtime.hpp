// Time, threads and chance, behind one door: the drivers take them from here, so that a test can run the same
// drivers on a simulated machine, one step at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "parsyn/round.hpp"

namespace parsyn::system {

/// A condition variable.
class Signal {
 public:
  virtual ~Signal() = default;
  virtual void notify_all() = 0;
  /// May return early, for no reason.
  virtual void wait(std::unique_lock<std::mutex> &lock) = 0;
  virtual void wait_until(std::unique_lock<std::mutex> &lock, Time until) = 0;

  template <typename Ready>
  void wait(std::unique_lock<std::mutex> &lock, Ready ready) {
    while (!ready()) wait(lock);
  }
};

/// Joined when it is destroyed.
class Thread {
 public:
  virtual ~Thread() = default;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  /// Monotonic: never set, and the same for every process of one boot of the machine.
  virtual Time now() const = 0;
  /// Milliseconds since 1970, for people: it may be set, forward and back.
  virtual std::int64_t wall_ms() const = 0;
  /// Another after each boot of the machine.
  virtual std::string boot_id() const = 0;
  virtual std::string random_hex(std::size_t bytes) = 0;
  virtual std::uint64_t random_u64() = 0;
  /// Throws Error(unavailable) when the system has no thread to give.
  virtual std::unique_ptr<Thread> start(std::function<void()> body) = 0;
  virtual std::unique_ptr<Signal> make_signal() = 0;

  /// Waits until `ready` or `until`, whichever is first; whether it is ready.
  template <typename Ready>
  bool wait_until(Signal &signal, std::unique_lock<std::mutex> &lock, std::optional<Time> until,
                  Ready ready) const {
    while (!ready()) {
      if (!until) {
        signal.wait(lock);
      } else if (now() < *until) {
        signal.wait_until(lock, *until);
      } else {
        return false;
      }
    }
    return true;
  }
};

/// The operating system's.
Runtime &system_runtime();

/// One value, or exception, from one thread to another.
template <typename T>
class Promise {
 public:
  explicit Promise(Runtime &runtime) : signal_(runtime.make_signal()) {}
  void set_value(T value) {
    const std::lock_guard lock(mutex_);
    value_.emplace(std::move(value));
    signal_->notify_all();
  }
  void set_exception(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    signal_->notify_all();
  }
  T get() {
    std::unique_lock lock(mutex_);
    signal_->wait(lock, [this] { return value_ || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Signal> signal_;
  std::optional<T> value_;
  std::exception_ptr failure_;
};

}  // namespace parsyn::system
