#include "common/stop_signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace parsyn::programs {
namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals(std::function<void()> on_signal, std::chrono::milliseconds same_request)
    : on_signal_(std::move(on_signal)), same_request_(same_request) {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { loop(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  // To this thread alone: it wakes sigwait, and is not taken for a request.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::loop() {
  const sigset_t set = stop_set();
  std::chrono::steady_clock::time_point first;
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (ending_) return;
    const auto now = std::chrono::steady_clock::now();
    if (received_ != 0) {
      if (now - first < same_request_) continue;
      _exit(128 + signal);
    }
    first = now;
    {
      const std::lock_guard lock(mutex_);
      received_ = signal;
    }
    changed_.notify_all();
    if (on_signal_) on_signal_();
  }
}

int StopSignals::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return received_ != 0; });
  return received_;
}

}  // namespace parsyn::programs
