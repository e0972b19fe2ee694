// A simulated world: virtual time, and machines whose threads are fibers of this one thread. One seed, one
// course of events.
//
// A machine is a system::Runtime: the real drivers run on it unchanged. Only one fiber runs at a time, and it
// runs until it waits; which of several that could go on does so next is drawn from the seed. Time stands
// still while anybody can go on, and then jumps to the next timer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/random.hpp"
#include "system/runtime.hpp"

namespace parsyn::sim {

class Machine;

class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  /// True time since the start of the world.
  Time now() const;
  /// A draw below `bound`.
  std::uint64_t draw(std::uint64_t bound);
  /// Whether something happens that has a chance of `of_thousand` in a thousand.
  bool chance(std::uint64_t of_thousand) { return draw(1'000) < of_thousand; }

  /// Calls `what` at that time, from no fiber; `what` must not wait.
  void at(Time when, std::function<void()> what);
  /// Goes on until `done`, which is asked after every step, or `until`. False: it was not done by then.
  bool run(Time until, const std::function<bool()> &done);
  /// Everything that happened, one line each, where a trace is wanted.
  void trace(const std::string &line);
  /// Of all traced lines: the same seed has the same digest.
  std::uint64_t digest() const;
  void print_trace(bool on);

 private:
  friend class Machine;
  struct State;
  std::unique_ptr<State> state_;
};

/// One process on one computer. Its clock may be set, be skewed, and start anew. The world outlives it.
class Machine final : public system::Runtime {
 public:
  Machine(World &world, std::string name);
  ~Machine() override;

  /// Runs `body` as a thread of the machine that nobody joins: the process's main function.
  void start_process(std::function<void()> body);
  /// SIGKILL: no fiber of the machine runs again; what their stacks hold is abandoned, as a kill abandons
  /// it. Called by one of its own fibers it does not return.
  void kill();
  bool is_running() const;
  /// Calls `what`, which must not wait, when the process that runs now is killed: what a kernel does for it
  /// then.
  void at_kill(std::function<void()> what);
  /// The computer starts anew: another boot id, a monotonic clock from nought.
  void reboot();
  /// Sets the wall clock, forward or back.
  void set_wall_clock(std::int64_t by_ms);

  Time now() const override;
  std::int64_t wall_ms() const override;
  std::string boot_id() const override;
  std::string random_hex(std::size_t bytes) override;
  std::uint64_t random_u64() override;
  std::unique_ptr<system::Thread> start(std::function<void()> body) override;
  std::unique_ptr<system::Signal> make_signal() override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Lets the current fiber wait for so long, in true time.
void pass_time(World &world, Time duration);

}  // namespace parsyn::sim
