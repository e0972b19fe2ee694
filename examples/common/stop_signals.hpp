// SIGTERM and SIGINT as an orderly request to stop.
//
// The first one asks: `on_signal` is called, once, on a thread of this object, and received() turns true. A
// later one ends the process at once, for a stop that takes too long; but not one that follows within
// kSameRequest: a Ctrl-C reaches a whole process group, and whoever is in it and passes it on, such as
// timeout, repeats it.
//
// Create it before any other thread is started: threads inherit that these signals are blocked, so that the
// one thread here gets them. `on_signal` may take locks and allocate: it runs in no signal handler.
//
// Thread-safety: every method may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace parsyn::programs {

/// Signals this soon after the first one are the same request.
inline constexpr std::chrono::milliseconds kSameRequest{1'000};

class StopSignals {
 public:
  explicit StopSignals(std::function<void()> on_signal = {},
                       std::chrono::milliseconds same_request = kSameRequest);
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// 0: none yet.
  int received() const { return received_; }
  /// Returns the signal's number.
  int wait();

 private:
  void loop();

  const std::function<void()> on_signal_;
  const std::chrono::milliseconds same_request_;
  std::atomic<int> received_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace parsyn::programs
