// The coordinator's one thread of decisions: every change of state is a command that it runs.
//
// Commands that are queued together are run together under the state's lock, their journal writes are
// committed in one batch without the lock, and only then are callers answered and work is started: nothing is
// acknowledged that is not kept.
//
// A journal that cannot write for now (disk full) stalls the loop: the batch is tried again until it is kept,
// and who comes meanwhile is refused with the reason. A journal that is broken ends it: nothing further is
// accepted, and every caller is told why.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/journal.hpp"
#include "parsyn/round.hpp"
#include "system/runtime.hpp"
#include "system/thread_pool.hpp"

namespace parsyn::coordinator {

struct Batch {
  std::vector<JournalWrite> writes;
  /// After the commit, in order, on the callback thread, with no lock held: answers to polls, logs, started
  /// work.
  std::vector<std::function<void()>> effects;
  /// After the commit, or with the error of a commit that failed: answers to waiting callers.
  std::vector<std::function<void(std::exception_ptr)>> replies;
  /// The same for callers who only look, and do not wait for a journal that is stalled.
  std::vector<std::function<void(std::exception_ptr)>> looks;
};

class Loop {
 public:
  struct Hooks {
    std::function<void(Time now, Batch &batch)> on_time;  ///< Under the lock, at each turn, last.
    std::function<std::optional<Time>()> next_wake;       ///< Under the lock.
    /// On the loop's thread, with no lock held: the journal stalls, goes on (empty), or is broken.
    std::function<void(const std::string &reason, bool broken)> on_journal;
  };

  /// `state` is the lock under which commands and hooks run.
  Loop(Journal &journal, std::mutex &state, system::Runtime &runtime, Hooks hooks);
  ~Loop() { stop(); }
  Loop(const Loop &) = delete;
  Loop &operator=(const Loop &) = delete;

  struct Command {
    std::function<void(Batch &)> run;
    /// Instead of run, after the journal is broken. Empty: work of the coordinator's own, which is taken even
    /// while the journal is stalled.
    std::function<void(std::exception_ptr)> refuse;
  };
  /// Throws Error(cancelled) after stop(), and Error(unavailable) while the journal is stalled.
  void post(Command command);

  /// Runs `command` on the loop and returns what it returned once its writes are committed; rethrows what it
  /// threw.
  template <typename Result>
  Result call(std::function<Result(Batch &)> command) {
    return ask<Result>(std::move(command), &Batch::replies);
  }
  /// The same for a command that changes nothing: what it sees is committed when this returns.
  template <typename Result>
  Result look(std::function<Result()> command) {
    return ask<Result>([command = std::move(command)](Batch &) { return command(); }, &Batch::looks);
  }

  /// Why the journal takes nothing now; empty: it does. From any thread.
  std::string failure() const;

  /// Runs `effect` as a batch's effects are, whatever the journal says.
  void later(std::function<void()> effect) { callbacks_->post(std::move(effect)); }

  /// Runs what is queued, then ends. Idempotent.
  void stop();
  /// After stop(): returns when every effect has run. Not from a callback.
  void end_callbacks() { callbacks_.reset(); }

 private:
  template <typename Result>
  Result ask(std::function<Result(Batch &)> command,
             std::vector<std::function<void(std::exception_ptr)>> Batch::*answers) {
    const auto promise = std::make_shared<system::Promise<Result>>(runtime_);
    Command entry;
    entry.refuse = [promise](std::exception_ptr failure) { promise->set_exception(failure); };
    entry.run = [promise, answers, command = std::move(command)](Batch &batch) {
      try {
        auto result = std::make_shared<Result>(command(batch));
        (batch.*answers).push_back([promise, result](std::exception_ptr failure) {
          failure ? promise->set_exception(failure) : promise->set_value(std::move(*result));
        });
      } catch (...) {
        (batch.*answers).push_back([promise, thrown = std::current_exception()](std::exception_ptr) {
          promise->set_exception(thrown);
        });
      }
    };
    post(std::move(entry));
    return promise->get();
  }
  void run();
  void turn(std::deque<Command> commands);
  /// False: the journal is broken, or the loop has been stopped while it was stalled.
  bool commit(Batch &batch);
  void end_with(const std::string &reason);
  void set_failure(const std::string &reason, bool broken);

  Journal &journal_;
  std::mutex &state_;
  system::Runtime &runtime_;
  Hooks hooks_;
  // One thread keeps the order of effects.
  std::unique_ptr<system::ThreadPool> callbacks_;

  mutable std::mutex mutex_;
  std::unique_ptr<system::Signal> wake_;
  std::deque<Command> queue_;           // guarded by mutex_
  bool stopping_ = false;               // guarded by mutex_
  std::string failure_;                 // guarded by mutex_
  std::optional<Time> next_wake_;       // the loop's thread only
  std::exception_ptr journal_failure_;  // the loop's thread only
  std::unique_ptr<system::Thread> thread_;
  std::once_flag joined_;
};

}  // namespace parsyn::coordinator
