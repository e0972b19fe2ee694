// The coordinator's one thread of decisions: every change of state is a command that it runs.
//
// Commands that are queued together are run together under the state's lock, their journal writes are
// committed in one batch without the lock, and only then are callers answered and work is started: nothing is
// acknowledged that is not kept. When the journal fails, nothing further is accepted, and every caller is
// told why.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/journal.hpp"
#include "parsyn/round.hpp"
#include "system/thread_pool.hpp"

namespace parsyn::coordinator {

struct Batch {
  std::vector<JournalWrite> writes;
  /// After the commit, in order, on the callback thread, with no lock held: answers to polls, logs, started
  /// work.
  std::vector<std::function<void()>> effects;
  /// After the commit, or with the error of a commit that failed: answers to waiting callers.
  std::vector<std::function<void(std::exception_ptr)>> replies;
};

class Loop {
 public:
  struct Hooks {
    std::function<void(Time now, Batch &batch)> on_time;  ///< Under the lock, at each turn.
    std::function<std::optional<Time>()> next_wake;       ///< Under the lock.
  };

  /// `state` is the lock under which commands and hooks run.
  Loop(Journal &journal, std::mutex &state, Hooks hooks);
  ~Loop() { stop(); }
  Loop(const Loop &) = delete;
  Loop &operator=(const Loop &) = delete;

  static Time now();

  struct Command {
    std::function<void(Batch &)> run;
    std::function<void(std::exception_ptr)>
        refuse;  ///< Instead of run, after the journal has failed. May be empty.
  };
  /// Throws Error(cancelled) after stop().
  void post(Command command);

  /// Runs `command` on the loop and returns what it returned once its writes are committed; rethrows what it
  /// threw.
  template <typename Result>
  Result call(std::function<Result(Batch &)> command) {
    const auto promise = std::make_shared<std::promise<Result>>();
    auto future = promise->get_future();
    Command entry;
    entry.refuse = [promise](std::exception_ptr failure) { promise->set_exception(failure); };
    entry.run = [promise, command = std::move(command)](Batch &batch) {
      try {
        auto result = std::make_shared<Result>(command(batch));
        batch.replies.push_back([promise, result](std::exception_ptr failure) {
          failure ? promise->set_exception(failure) : promise->set_value(std::move(*result));
        });
      } catch (...) {
        batch.replies.push_back([promise, thrown = std::current_exception()](std::exception_ptr) {
          promise->set_exception(thrown);
        });
      }
    };
    post(std::move(entry));
    return future.get();
  }

  /// Runs what is queued, then ends. Idempotent.
  void stop();
  /// After stop(): returns when every effect has run. Not from a callback.
  void end_callbacks() { callbacks_.reset(); }

 private:
  void run();
  void turn(std::deque<Command> commands);

  Journal &journal_;
  std::mutex &state_;
  Hooks hooks_;
  // One thread keeps the order of effects.
  std::unique_ptr<system::ThreadPool> callbacks_ = std::make_unique<system::ThreadPool>(1);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Command> queue_;           // guarded by mutex_
  bool stopping_ = false;               // guarded by mutex_
  std::optional<Time> next_wake_;       // the loop's thread only
  std::exception_ptr journal_failure_;  // the loop's thread only
  std::once_flag joined_;
  std::thread thread_;
};

}  // namespace parsyn::coordinator
