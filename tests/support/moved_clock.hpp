// The real machine with clocks that a test moves, and boots that it counts.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "system/runtime.hpp"

namespace parsyn::test {

class MovedClock final : public system::Runtime {
 public:
  void move(Time by) { moved_ += by.count(); }
  /// As whoever sets the machine's clock does, forward or back.
  void set_wall(Time by) { wall_moved_ += by.count(); }
  void reboot() { ++boots_; }

  Time now() const override { return system::system_runtime().now() + Time(moved_); }
  std::int64_t wall_ms() const override { return system::system_runtime().wall_ms() + wall_moved_; }
  std::string boot_id() const override { return "boot-" + std::to_string(boots_); }
  std::string random_hex(std::size_t bytes) override { return system::system_runtime().random_hex(bytes); }
  std::uint64_t random_u64() override { return system::system_runtime().random_u64(); }
  std::unique_ptr<system::Thread> start(std::function<void()> body) override {
    return system::system_runtime().start(std::move(body));
  }
  std::unique_ptr<system::Signal> make_signal() override { return std::make_unique<MovedSignal>(*this); }

 private:
  /// Waits for what is left of a time when it begins to wait; a later move does not wake it.
  class MovedSignal final : public system::Signal {
   public:
    explicit MovedSignal(const MovedClock &clock) : clock_(clock) {}
    void notify_all() override { signal_->notify_all(); }
    void wait(std::unique_lock<std::mutex> &lock) override { signal_->wait(lock); }
    void wait_until(std::unique_lock<std::mutex> &lock, Time until) override {
      signal_->wait_until(lock, until - Time(clock_.moved_));
    }

   private:
    const MovedClock &clock_;
    std::unique_ptr<system::Signal> signal_ = system::system_runtime().make_signal();
  };

  std::atomic<std::int64_t> moved_{0};
  std::atomic<std::int64_t> wall_moved_{0};
  std::atomic<int> boots_{1};
};

}  // namespace parsyn::test
