#include "system/runtime.hpp"

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "parsyn/error.hpp"
#include "system/random.hpp"

namespace parsyn::system {
namespace {

class SystemSignal final : public Signal {
 public:
  void notify_all() override { changed_.notify_all(); }
  void wait(std::unique_lock<std::mutex> &lock) override { changed_.wait(lock); }
  void wait_until(std::unique_lock<std::mutex> &lock, Time until) override {
    changed_.wait_until(lock, std::chrono::steady_clock::time_point(until));
  }

 private:
  std::condition_variable changed_;
};

class SystemThread final : public Thread {
 public:
  explicit SystemThread(std::function<void()> body) : thread_(std::move(body)) {}
  ~SystemThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

class SystemRuntime final : public Runtime {
 public:
  Time now() const override {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
  }
  std::int64_t wall_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  std::string boot_id() const override {
    // Read to its end: the system says of such a file that it has no bytes.
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;  // empty where there is none: no boot is like another then
  }
  std::string random_hex(std::size_t bytes) override { return system::random_hex(bytes); }
  std::uint64_t random_u64() override { return system::random_u64(); }
  std::unique_ptr<Thread> start(std::function<void()> body) override {
    try {
      return std::make_unique<SystemThread>(std::move(body));
    } catch (const std::system_error &error) {
      throw Error(ErrorCode::unavailable, std::string("cannot start a thread: ") + error.what() +
                                              "; raise the limit of processes (ulimit -u), then try again");
    }
  }
  std::unique_ptr<Signal> make_signal() override { return std::make_unique<SystemSignal>(); }
};

}  // namespace

Runtime &system_runtime() {
  static SystemRuntime runtime;
  return runtime;
}

}  // namespace parsyn::system
