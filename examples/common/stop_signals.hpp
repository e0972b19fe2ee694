// SIGTERM and SIGINT as an orderly request to stop.
//
// The first one asks: `on_signal` is called, once, on a thread of this object, and received() turns true. The
// second ends the process at once, for a stop that takes too long.
//
// Create it before any other thread is started: threads inherit that these signals are blocked, so that the
// one thread here gets them. `on_signal` may take locks and allocate: it runs in no signal handler.
//
// Thread-safety: every method may be called from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace parsyn::programs {

class StopSignals {
 public:
  explicit StopSignals(std::function<void()> on_signal = {});
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// 0: none yet.
  int received() const { return received_; }
  /// Returns the signal's number.
  int wait();

 private:
  void loop();

  std::function<void()> on_signal_;
  std::atomic<int> received_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace parsyn::programs
