// Waiting times between tries: doubled each time up to a bound, with jitter, so that workers do not come back
// in step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "system/runtime.hpp"

namespace parsyn::worker {

class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds max, system::Runtime &runtime)
      : first_(std::min(first, max)), max_(max), current_(first_), runtime_(runtime) {}

  /// Between half of the current bound and all of it, beyond what the peer has asked for; the bound then
  /// doubles.
  std::chrono::milliseconds next(std::chrono::milliseconds asked_for = {}) {
    const auto bound = std::max<std::int64_t>(2, current_.count());
    current_ = std::min(max_, current_ * 2);
    const auto jitter = runtime_.random_u64() % static_cast<std::uint64_t>(bound / 2 + 1);
    return asked_for + std::chrono::milliseconds(bound / 2 + static_cast<std::int64_t>(jitter));
  }
  void reset() { current_ = first_; }

 private:
  std::chrono::milliseconds first_;
  std::chrono::milliseconds max_;
  std::chrono::milliseconds current_;
  system::Runtime &runtime_;
};

}  // namespace parsyn::worker
