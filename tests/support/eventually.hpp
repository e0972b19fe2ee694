// Waiting for what nobody is told of, with an end to every wait.
#pragma once

#include <chrono>
#include <thread>

namespace parsyn::test {

inline constexpr std::chrono::milliseconds kEventPatience{20'000};

/// Whether `done` comes true: it is asked again and again.
template <typename Done>
bool eventually(const Done &done, std::chrono::milliseconds patience = kEventPatience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace parsyn::test
