#include "system/thread_pool.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "system/log_exception.hpp"

namespace parsyn::system {

ThreadPool::ThreadPool(unsigned threads, Runtime &runtime, LogSink log)
    : runtime_(runtime), log_(std::move(log)), changed_(runtime.make_signal()) {
  try {
    for (unsigned i = 0; i < threads; ++i) threads_.push_back(runtime_.start([this] { loop(); }));
  } catch (...) {
    end();
    throw;
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_->notify_all();
  threads_.clear();
}

void ThreadPool::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_->notify_all();
}

void ThreadPool::loop() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_->wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      work();
    } catch (...) {
      log_exception(log_, "pool.work_failed", "work of the thread pool");
    }
  }
}

namespace {

/// What one run() shares with its helpers, which may start after run() has returned: hence shared ownership.
struct Run {
  Run(std::size_t pieces, Runtime &runtime) : count(pieces), done(runtime.make_signal()) {}

  const std::size_t count;
  std::mutex mutex;
  std::unique_ptr<Signal> done;
  const std::function<void(std::size_t)> *piece = nullptr;  // valid while ended < count
  std::size_t next = 0;
  std::size_t ended = 0;
  std::size_t failed_index = 0;
  std::exception_ptr failure;

  void work() {
    for (;;) {
      std::size_t index = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == count) return;
        index = next++;
      }
      std::exception_ptr thrown;
      try {
        (*piece)(index);
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (thrown && (!failure || index < failed_index)) {
        failure = thrown;
        failed_index = index;
      }
      if (++ended == count) done->notify_all();
    }
  }
};

}  // namespace

void PoolExecutor::run(std::size_t count, const std::function<void(std::size_t)> &piece) {
  if (count == 0) return;
  const auto run = std::make_shared<Run>(count, pool_.runtime());
  run->piece = &piece;
  const std::size_t helpers = std::min<std::size_t>(pool_.size(), count - 1);
  try {
    for (std::size_t i = 0; i < helpers; ++i) pool_.post([run] { run->work(); });
  } catch (const std::bad_alloc &) {
    // With fewer helpers, then. Left now, `piece` would be gone under those that have begun.
  }
  run->work();
  std::unique_lock lock(run->mutex);
  run->done->wait(lock, [&] { return run->ended == count; });
  if (run->failure) std::rethrow_exception(run->failure);
}

}  // namespace parsyn::system
