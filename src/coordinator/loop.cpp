#include "coordinator/loop.hpp"

#include <algorithm>
#include <utility>

#include "parsyn/limits.hpp"

namespace parsyn::coordinator {

Loop::Loop(Journal &journal, std::mutex &state, system::Runtime &runtime, Hooks hooks)
    : journal_(journal),
      state_(state),
      runtime_(runtime),
      hooks_(std::move(hooks)),
      callbacks_(std::make_unique<system::ThreadPool>(1, runtime)),
      wake_(runtime.make_signal()) {
  thread_ = runtime_.start([this] { run(); });
}

void Loop::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw Error(ErrorCode::cancelled, "the coordinator has been stopped");
    if (!failure_.empty() && command.refuse) throw Error(ErrorCode::unavailable, failure_);
    queue_.push_back(std::move(command));
  }
  wake_->notify_all();
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_->notify_all();
  std::call_once(joined_, [this] { thread_.reset(); });
}

std::string Loop::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Loop::set_failure(const std::string &reason, bool broken) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == reason) return;
    failure_ = reason;
  }
  hooks_.on_journal(reason, broken);
}

void Loop::run() {
  for (;;) {
    std::deque<Command> commands;
    {
      std::unique_lock lock(mutex_);
      runtime_.wait_until(*wake_, lock, next_wake_, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_ && queue_.empty()) return;
      commands.swap(queue_);
    }
    turn(std::move(commands));
  }
}

void Loop::turn(std::deque<Command> commands) {
  if (journal_failure_) {
    for (const Command &command : commands) {
      if (command.refuse) command.refuse(journal_failure_);
    }
    return;
  }
  Batch batch;
  {
    const std::lock_guard lock(state_);
    for (const Command &command : commands) command.run(batch);
    hooks_.on_time(runtime_.now(), batch);
    next_wake_ = hooks_.next_wake();
  }
  if (!batch.writes.empty() && !commit(batch)) {
    // What the state says and the journal does not is never acknowledged: no effect, and an error to every
    // caller.
    next_wake_.reset();
    batch.effects.clear();
  }
  for (const auto &look : batch.looks) look(journal_failure_);
  for (const auto &reply : batch.replies) reply(journal_failure_);
  for (auto &effect : batch.effects) {
    callbacks_->post([effect = std::move(effect)] {
      try {
        effect();
      } catch (...) {
        // A host's callback that throws has no one to tell, and must not end the process.
      }
    });
  }
}

bool Loop::commit(Batch &batch) {
  std::chrono::milliseconds pause = limits::kBackoffFirst;
  for (;;) {
    try {
      journal_.commit(batch.writes);
      set_failure({}, false);
      return true;
    } catch (const Error &error) {
      if (error.code() != ErrorCode::unavailable) {
        end_with("the journal is broken: " + error.message());
        return false;
      }
      set_failure("the journal cannot be written: " + error.message(), false);
      for (const auto &look : batch.looks) look(std::current_exception());
      batch.looks.clear();
      std::unique_lock lock(mutex_);
      if (runtime_.wait_until(*wake_, lock, runtime_.now() + pause, [this] { return stopping_; })) {
        journal_failure_ = std::current_exception();
        return false;
      }
      pause = std::min<std::chrono::milliseconds>(2 * pause, limits::kJournalRetryMax);
    } catch (const std::exception &error) {
      end_with(std::string("the journal is broken: ") + error.what());
      return false;
    }
  }
}

void Loop::end_with(const std::string &reason) {
  journal_failure_ = std::make_exception_ptr(Error(ErrorCode::unavailable, reason));
  set_failure(reason, true);
}

}  // namespace parsyn::coordinator
