// A fixed number of threads that run queued functions, and the Executor over them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "parsyn/aggregator.hpp"
#include "parsyn/log.hpp"
#include "system/runtime.hpp"

namespace parsyn::system {

/// Thread-safe. Destruction runs what is queued, then joins.
class ThreadPool {
 public:
  /// `log` is told of work that threw.
  explicit ThreadPool(unsigned threads, Runtime &runtime = system_runtime(), LogSink log = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// `work` should not throw: there is nobody whom it would tell. If it does, the log says so, and the thread
  /// goes on.
  void post(std::function<void()> work);
  Runtime &runtime() const { return runtime_; }
  unsigned size() const { return static_cast<unsigned>(threads_.size()); }

 private:
  void loop();
  void end();

  Runtime &runtime_;
  const LogSink log_;
  std::mutex mutex_;
  std::unique_ptr<Signal> changed_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_
  bool ending_ = false;                      // guarded by mutex_
  std::vector<std::unique_ptr<Thread>> threads_;
};

/// Runs pieces on the pool's threads and on the caller's own, so that it cannot wait for itself.
class PoolExecutor final : public Executor {
 public:
  explicit PoolExecutor(ThreadPool &pool) : pool_(pool) {}
  unsigned concurrency() const override { return pool_.size() + 1; }
  void run(std::size_t count, const std::function<void(std::size_t)> &piece) override;

 private:
  ThreadPool &pool_;
};

}  // namespace parsyn::system
