#include "sim/world.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
// A killed process's memory is abandoned with its stacks, as a real one's is.
extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=0";
}
#endif

namespace parsyn::sim {
namespace {

/// Steps without time passing: more is a loop without end.
constexpr std::uint64_t kStepsAtOneTimeMax = 1'000'000;
/// Of a thousand waits, so many end for no reason: a condition variable's may.
constexpr std::uint64_t kIdleWakeUps = 5;
constexpr Time kUptimeMax = std::chrono::hours(72);
constexpr std::int64_t kWallClockStart = 1'767'225'600'000;  // 2026
constexpr std::uint64_t kWallClockSkewMax = 5'000;           // ms, either way

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kStackBytes = 1 << 20;  // frames are larger under the sanitizer
#else
constexpr std::size_t kStackBytes = 256 << 10;
#endif
constexpr std::size_t kGuardBytes = 4 << 10;

[[noreturn]] void die(const std::string &what) {
  std::fprintf(stderr, "sim: %s\n", what.c_str());
  std::abort();
}

// Stacks, with a page below each that may not be touched. Reused by later fibers, of other worlds too.
std::vector<std::byte *> &idle_stacks() {
  static std::vector<std::byte *> stacks;
  return stacks;
}

std::byte *take_stack() {
  std::vector<std::byte *> &idle = idle_stacks();
  if (!idle.empty()) {
    std::byte *stack = idle.back();
    idle.pop_back();
    return stack;
  }
  void *mapped = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || ::mprotect(mapped, kGuardBytes, PROT_NONE) != 0) die("no memory for a stack");
  return static_cast<std::byte *>(mapped) + kGuardBytes;
}

void give_stack_back(std::byte *stack) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack, kStackBytes);
#endif
  idle_stacks().push_back(stack);
}

/// What the C++ runtime keeps for each thread of the exceptions that are being handled.
struct Handled {
  void *caught = nullptr;
  unsigned uncaught = 0;

  static Handled save() {
    Handled now;
    std::memcpy(&now.caught, abi::__cxa_get_globals(), sizeof now.caught);
    std::memcpy(&now.uncaught, place_of_uncaught(), sizeof now.uncaught);
    return now;
  }
  void restore() const {
    std::memcpy(abi::__cxa_get_globals(), &caught, sizeof caught);
    std::memcpy(place_of_uncaught(), &uncaught, sizeof uncaught);
  }

 private:
  static void *place_of_uncaught() {
    return reinterpret_cast<std::byte *>(abi::__cxa_get_globals()) + sizeof(void *);
  }
};

/// From its start to its end or its kill.
struct Process {
  std::string name;
  std::uint64_t living = 0;
  bool killed = false;
  std::vector<std::function<void()>> at_kill;
};

class Scheduler;

struct Fiber {
  enum class Phase { ready, running, waiting, ended };
  using TimerKey = std::pair<Time, std::uint64_t>;

  Scheduler *scheduler = nullptr;
  std::uint64_t number = 0;
  std::size_t place = 0;  // among all living fibers
  std::shared_ptr<Process> process;
  std::function<void()> body;
  std::byte *stack = nullptr;
  ucontext_t context{};
  void *fake_stack = nullptr;
  Handled handled;
  Phase phase = Phase::ready;
  std::uint64_t waits = 0;  // so far: tells one wait from the next
  std::optional<TimerKey> timer;
  std::vector<std::pair<std::shared_ptr<Fiber>, std::uint64_t>> joining;
};

/// The fiber that runs now, of whichever world; null: none.
Fiber *running_fiber = nullptr;

class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed) : random_(core::derive_seed({seed, 0x51})), seed_(seed) {}
  ~Scheduler() {
    while (!fibers_.empty()) abandon(fibers_.back());
  }
  Scheduler(const Scheduler &) = delete;
  Scheduler &operator=(const Scheduler &) = delete;

  Time now() const { return now_; }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t draw(std::uint64_t bound) { return random_.below(bound); }
  std::uint64_t digest() const { return digest_; }
  void print_trace(bool on) { printing_ = on; }

  void trace(const std::string &line) {
    mix(static_cast<std::uint64_t>(now_.count()));
    for (const char c : line) mix(static_cast<unsigned char>(c));
    if (printing_) std::fprintf(stderr, "%10.3f %s\n", static_cast<double>(now_.count()) / 1e3, line.c_str());
  }

  Fiber::TimerKey at(Time when, std::function<void()> what) {
    const Fiber::TimerKey key{std::max(when, now_), ++timers_made_};
    timers_.emplace(key, std::move(what));
    return key;
  }

  std::shared_ptr<Fiber> start(std::shared_ptr<Process> process, std::function<void()> body) {
    auto fiber = std::make_shared<Fiber>();
    fiber->scheduler = this;
    fiber->number = ++fibers_made_;
    fiber->process = std::move(process);
    fiber->body = std::move(body);
    fiber->stack = take_stack();
    ::getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    ::makecontext(&fiber->context, &Scheduler::enter, 0);
    ++fiber->process->living;
    fiber->place = fibers_.size();
    fibers_.push_back(fiber);
    ready_.push_back(fiber);
    return fiber;
  }

  bool run(Time until, const std::function<bool()> &done) {
    if (running_fiber) die("run() is called by a fiber");
    std::uint64_t steps = 0;
    for (;;) {
      if (done && done()) return true;
      if (!ready_.empty()) {
        step();
      } else if (!timers_.empty() && timers_.begin()->first.first <= until) {
        auto timer = timers_.extract(timers_.begin());
        if (timer.key().first > now_) steps = 0;
        now_ = timer.key().first;
        timer.mapped()();
      } else {
        now_ = std::max(now_, until);
        return false;
      }
      if (++steps > kStepsAtOneTimeMax)
        throw std::runtime_error("time stands still, and still there is work");
    }
  }

  /// The wait that begins now of the fiber that runs.
  std::uint64_t begin_wait(std::optional<Time> until) {
    Fiber &fiber = *running_fiber;
    const std::uint64_t wait = ++fiber.waits;
    fiber.phase = Fiber::Phase::waiting;
    if (until) fiber.timer = at(*until, [self = fibers_[fiber.place], wait] { wake(self, wait); });
    return wait;
  }
  std::shared_ptr<Fiber> current() const { return fibers_[running_fiber->place]; }

  /// Lets others run until the wait of the fiber that runs is over.
  void leave() {
    Fiber &fiber = *running_fiber;
    fiber.handled = Handled::save();
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fiber.fake_stack, main_bottom_, main_size_);
#endif
    ::swapcontext(&fiber.context, &main_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
#endif
    fiber.handled.restore();
  }

  static void wake(const std::shared_ptr<Fiber> &fiber, std::uint64_t wait) {
    if (fiber->phase != Fiber::Phase::waiting || fiber->waits != wait) return;
    fiber->phase = Fiber::Phase::ready;
    Scheduler &scheduler = *fiber->scheduler;
    if (fiber->timer) scheduler.timers_.erase(*std::exchange(fiber->timer, std::nullopt));
    scheduler.ready_.push_back(fiber);
  }

  /// Does not return when the fiber that runs is of this process.
  void kill(const std::shared_ptr<Process> &process) {
    if (process->killed) return;
    process->killed = true;
    for (std::size_t i = fibers_.size(); i-- > 0;) {
      if (fibers_[i]->process == process && fibers_[i].get() != running_fiber) abandon(fibers_[i]);
    }
    for (const auto &what : std::exchange(process->at_kill, {})) what();
    if (running_fiber && running_fiber->process == process) leave_for_good();
  }

 private:
  void mix(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001B3ULL; }

  void step() {
    const auto chosen = static_cast<std::size_t>(draw(ready_.size()));
    const std::shared_ptr<Fiber> fiber = std::move(ready_[chosen]);
    ready_[chosen] = std::move(ready_.back());
    ready_.pop_back();
    mix(fiber->number);
    fiber->phase = Fiber::Phase::running;
    running_fiber = fiber.get();
    const Handled handled = Handled::save();
    fiber->handled.restore();
#ifdef __SANITIZE_ADDRESS__
    void *fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, fiber->stack, kStackBytes);
#endif
    ::swapcontext(&main_, &fiber->context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
    handled.restore();
    running_fiber = nullptr;
    if (fiber->phase == Fiber::Phase::running) {
      // Its end, of which it cannot free its own stack.
      if (fiber->process->killed) {
        abandon(fiber);
      } else {
        end(fiber);
        fiber->body = nullptr;
      }
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  static void enter() {
    Fiber &fiber = *running_fiber;
    Scheduler &scheduler = *fiber.scheduler;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &scheduler.main_bottom_, &scheduler.main_size_);
#endif
    try {
      fiber.body();
    } catch (const std::exception &error) {
      scheduler.failure_ = std::make_exception_ptr(
          std::runtime_error("a thread of " + fiber.process->name + " threw: " + error.what()));
    } catch (...) {
      scheduler.failure_ =
          std::make_exception_ptr(std::runtime_error("a thread of " + fiber.process->name + " threw"));
    }
    scheduler.leave_for_good();
  }

  [[noreturn]] void leave_for_good() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(nullptr, main_bottom_, main_size_);
#endif
    ::setcontext(&main_);
    die("a fiber that has ended was run");
  }

  /// Ends it where it is. What its body holds is part of the memory that nobody cleans up.
  void abandon(std::shared_ptr<Fiber> fiber) {
    static_cast<void>(new std::function<void()>(std::move(fiber->body)));
    end(fiber);
  }

  void end(const std::shared_ptr<Fiber> &fiber) {
    if (fiber->timer) timers_.erase(*std::exchange(fiber->timer, std::nullopt));
    if (fiber->phase == Fiber::Phase::ready) std::erase(ready_, fiber);
    fiber->phase = Fiber::Phase::ended;
    --fiber->process->living;
    fibers_.back()->place = fiber->place;
    fibers_[fiber->place] = fibers_.back();
    fibers_.pop_back();
    give_stack_back(fiber->stack);
    for (const auto &[joiner, wait] : std::exchange(fiber->joining, {})) wake(joiner, wait);
  }

  core::Random random_;
  const std::uint64_t seed_;
  Time now_{0};
  std::map<Fiber::TimerKey, std::function<void()>> timers_;
  std::uint64_t timers_made_ = 0;
  std::vector<std::shared_ptr<Fiber>> fibers_;
  std::vector<std::shared_ptr<Fiber>> ready_;
  std::uint64_t fibers_made_ = 0;
  ucontext_t main_{};
  const void *main_bottom_ = nullptr;
  std::size_t main_size_ = 0;
  std::exception_ptr failure_;
  std::uint64_t digest_ = 0xCBF29CE484222325ULL;
  bool printing_ = false;
};

class FiberThread final : public system::Thread {
 public:
  explicit FiberThread(std::shared_ptr<Fiber> fiber) : fiber_(std::move(fiber)) {}
  ~FiberThread() override {
    while (fiber_->phase != Fiber::Phase::ended) {
      if (!running_fiber) die("a thread of " + fiber_->process->name + " is joined by no fiber");
      Scheduler &scheduler = *fiber_->scheduler;
      fiber_->joining.emplace_back(scheduler.current(), scheduler.begin_wait({}));
      scheduler.leave();
    }
  }

 private:
  const std::shared_ptr<Fiber> fiber_;
};

}  // namespace

struct World::State {
  explicit State(std::uint64_t seed) : scheduler(seed) {}
  Scheduler scheduler;
};

struct Machine::State {
  State(World &of, Scheduler &on, std::string called)
      : world(of), scheduler(on), name(std::move(called)), random(0) {}

  World &world;
  Scheduler &scheduler;
  const std::string name;
  core::Random random;
  Time boot_at{0};  // true time of its monotonic clock's nought
  std::uint64_t boots = 1;
  std::int64_t wall_offset_ms = 0;
  std::shared_ptr<Process> process = std::make_shared<Process>();

  /// A new one after a kill.
  const std::shared_ptr<Process> &live_process() {
    if (process->killed) process = std::make_shared<Process>();
    process->name = name;
    return process;
  }
  Time true_time(Time of_machine) const {
    return of_machine > Time::max() - kUptimeMax * 100 ? Time::max() : of_machine + boot_at;
  }
};

namespace {

class FiberSignal final : public system::Signal {
 public:
  FiberSignal(std::string machine, std::function<Time(Time)> true_time)
      : machine_(std::move(machine)), true_time_(std::move(true_time)) {}

  void notify_all() override {
    for (const auto &[fiber, wait] : std::exchange(waiting_, {})) Scheduler::wake(fiber, wait);
  }
  void wait(std::unique_lock<std::mutex> &lock) override { wait_for_wake_up(lock, std::nullopt); }
  void wait_until(std::unique_lock<std::mutex> &lock, Time until) override {
    wait_for_wake_up(lock, true_time_(until));
  }

 private:
  void wait_for_wake_up(std::unique_lock<std::mutex> &lock, std::optional<Time> until) {
    if (!running_fiber) die("no fiber waits at a signal of " + machine_);
    Scheduler &scheduler = *running_fiber->scheduler;
    const std::shared_ptr<Fiber> self = scheduler.current();
    const std::uint64_t wait = scheduler.begin_wait(until);
    waiting_.emplace_back(self, wait);
    if (scheduler.draw(1'000) < kIdleWakeUps) Scheduler::wake(self, wait);
    lock.unlock();
    scheduler.leave();
    std::erase_if(waiting_, [&](const auto &waiter) { return waiter.first == self; });
    lock.lock();
  }

  const std::string machine_;
  const std::function<Time(Time)> true_time_;
  std::vector<std::pair<std::shared_ptr<Fiber>, std::uint64_t>> waiting_;
};

}  // namespace

World::World(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {}
World::~World() = default;
Time World::now() const { return state_->scheduler.now(); }
std::uint64_t World::draw(std::uint64_t bound) { return state_->scheduler.draw(bound); }
void World::at(Time when, std::function<void()> what) { state_->scheduler.at(when, std::move(what)); }
bool World::run(Time until, const std::function<bool()> &done) { return state_->scheduler.run(until, done); }
void World::trace(const std::string &line) { state_->scheduler.trace(line); }
std::uint64_t World::digest() const { return state_->scheduler.digest(); }
void World::print_trace(bool on) { state_->scheduler.print_trace(on); }

Machine::Machine(World &world, std::string name)
    : state_(std::make_shared<State>(world, world.state_->scheduler, std::move(name))) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : state_->name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  state_->random = core::Random(core::derive_seed({state_->scheduler.seed(), hash}));
  state_->boot_at =
      world.now() -
      Time(static_cast<std::int64_t>(state_->random.below(static_cast<std::uint64_t>(kUptimeMax.count()))));
  state_->wall_offset_ms = static_cast<std::int64_t>(state_->random.below(2 * kWallClockSkewMax)) -
                           static_cast<std::int64_t>(kWallClockSkewMax);
}

Machine::~Machine() { state_->scheduler.kill(state_->process); }

void Machine::start_process(std::function<void()> body) {
  state_->scheduler.start(state_->live_process(), std::move(body));
}

void Machine::kill() { state_->scheduler.kill(state_->process); }

bool Machine::is_running() const { return !state_->process->killed && state_->process->living > 0; }

void Machine::at_kill(std::function<void()> what) {
  state_->live_process()->at_kill.push_back(std::move(what));
}

void Machine::reboot() {
  state_->boot_at = state_->scheduler.now();
  ++state_->boots;
  kill();
}

void Machine::set_wall_clock(std::int64_t by_ms) { state_->wall_offset_ms += by_ms; }

Time Machine::now() const { return state_->scheduler.now() - state_->boot_at; }

std::int64_t Machine::wall_ms() const {
  return kWallClockStart + state_->scheduler.now().count() + state_->wall_offset_ms;
}

std::string Machine::boot_id() const { return state_->name + "-boot-" + std::to_string(state_->boots); }

std::string Machine::random_hex(std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < 2 * bytes; ++i) text += kDigits[state_->random.below(16)];
  return text;
}

std::uint64_t Machine::random_u64() { return state_->random.bits(); }

std::unique_ptr<system::Thread> Machine::start(std::function<void()> body) {
  return std::make_unique<FiberThread>(state_->scheduler.start(state_->live_process(), std::move(body)));
}

std::unique_ptr<system::Signal> Machine::make_signal() {
  return std::make_unique<FiberSignal>(state_->name,
                                       [state = state_](Time time) { return state->true_time(time); });
}

void pass_time(World &world, Time duration) {
  if (!running_fiber) die("pass_time() is called by no fiber");
  Scheduler &scheduler = *running_fiber->scheduler;
  scheduler.begin_wait(world.now() + duration);
  scheduler.leave();
}

}  // namespace parsyn::sim

// All fibers are one thread: one that would wait for a mutex that another holds would wait for ever. It means
// that a driver holds a std::mutex while it waits for something else.
extern "C" __attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  for (std::uint64_t tries = 0;; ++tries) {
    const int result = ::pthread_mutex_trylock(mutex);
    if (result != EBUSY) return result;
    if (parsyn::sim::running_fiber) {
      parsyn::sim::die("a fiber of " + parsyn::sim::running_fiber->process->name + " (seed " +
                       std::to_string(parsyn::sim::running_fiber->scheduler->seed()) +
                       ") waits for a std::mutex that another fiber holds");
    }
    if (tries == 10'000'000) parsyn::sim::die("a std::mutex is waited for that a killed fiber held");
    ::sched_yield();
  }
}
