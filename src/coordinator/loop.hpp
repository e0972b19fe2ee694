// The coordinator's one thread of decisions: every change of state is a command that it runs.
//
// Commands that are queued together are run together under the state's lock, their journal writes are
// committed in one batch without the lock, and only then are callers answered and work is started: nothing is
// acknowledged that is not kept.
//
// A journal that cannot write for now (disk full) stalls the loop: the batch is tried again until it is kept,
// and who comes meanwhile is refused with the reason. Callers of the batch itself wait for
// limits::kJournalReplyTimeout, and hear then that it is not known yet whether their change is kept. A
// journal that is broken breaks the loop off: nothing further is accepted, and every caller is told why. So
// does an exception that nobody expects: it may have left the state half changed, of which nothing may be
// kept; a start from the journal has it whole again.
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

  /// Grows with each change.
  std::size_t changes() const { return writes.size() + effects.size(); }
};

class Loop {
 public:
  struct Hooks {
    std::function<void(Time now, Batch &batch)> on_time;  ///< Under the lock, at each turn, last.
    std::function<std::optional<Time>()> next_wake;       ///< Under the lock.
    /// On the loop's thread, with no lock held: the journal stalls, goes on (empty), or all is broken off.
    std::function<void(const std::string &reason, bool broken)> on_journal;
    /// Under the lock, before the commands: the last commit took so long, and no command could run meanwhile.
    std::function<void(Time duration, Batch &batch)> on_held_up;
    Time held_up_min{0};  ///< Told of a commit that takes at least so long.
  };

  /// `state` is the lock under which commands and hooks run.
  Loop(Journal &journal, std::mutex &state, system::Runtime &runtime, Hooks hooks);
  ~Loop() { stop(); }
  Loop(const Loop &) = delete;
  Loop &operator=(const Loop &) = delete;

  struct Command {
    /// What it throws breaks the loop off.
    std::function<void(Batch &)> run;
    /// Instead of run, or of what follows it, once the loop is broken off. Empty: work of the coordinator's
    /// own, which is taken even while the journal is stalled.
    std::function<void(std::exception_ptr)> refuse;
  };
  /// Throws Error(cancelled) after stop(), and Error(unavailable) while the journal is stalled.
  void post(Command command);

  /// Runs `command` on the loop and returns what it returned once its writes are committed; rethrows an Error
  /// that it threw before it changed anything. Throws Error(unavailable) while the journal is stalled. All
  /// else that it throws breaks the loop off.
  template <typename Result>
  Result call(std::function<Result(Batch &)> command) {
    return ask<Result>(std::move(command), &Batch::replies);
  }
  /// The same for a command that changes nothing: what it sees is committed when this returns.
  template <typename Result>
  Result look(std::function<Result()> command) {
    return ask<Result>([command = std::move(command)](Batch &) { return command(); }, &Batch::looks);
  }

  /// Why nothing is taken now; empty: all is. From any thread.
  std::string failure() const;

  /// Breaks the loop off: work that it waits for has been lost to this exception. From any thread.
  void break_off(std::exception_ptr cause) noexcept;

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
      const std::size_t changes = batch.changes();
      try {
        auto result = std::make_shared<Result>(command(batch));
        (batch.*answers).push_back([promise, result](std::exception_ptr failure) {
          failure ? promise->set_exception(failure) : promise->set_value(std::move(*result));
        });
      } catch (const Error &) {
        if (batch.changes() != changes) throw;
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
  /// Runs the commands and the hooks. False: the loop is broken off, and who waits for one of these commands
  /// and has no reply in the batch is refused.
  bool change_state(const std::deque<Command> &commands, Batch &batch);
  void keep(Batch &batch);
  /// False: the journal is broken, or the loop has been stopped while it was stalled.
  bool commit(Batch &batch);
  /// To those who wait while the journal is stalled: who came since is refused, who only looks is told, and
  /// when it `is_long` so are the callers of `batch`, whose changes are kept when the journal goes on.
  void answer_stalled(Batch &batch, bool is_long);
  void refuse(const std::deque<Command> &commands, std::size_t from);
  /// What `cause` says about itself ends up in failure().
  void end_with(const std::string &what, std::exception_ptr cause) noexcept;
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
  std::exception_ptr broken_off_;       // guarded by mutex_; by break_off(), until the loop has seen it
  std::optional<Time> next_wake_;       // the loop's thread only
  Time held_up_{0};                     // the loop's thread only; what on_held_up has not been told yet
  std::exception_ptr journal_failure_;  // the loop's thread only; or what else has broken the loop off
  std::unique_ptr<system::Thread> thread_;
  std::once_flag joined_;
};

}  // namespace parsyn::coordinator
