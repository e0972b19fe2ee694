#include "coordinator/loop.hpp"

#include <algorithm>
#include <utility>

#include "parsyn/limits.hpp"
#include "system/log_exception.hpp"

namespace parsyn::coordinator {
namespace {

/// Short enough to be set where there is no memory.
constexpr char kNoMemory[] = "out of memory";

}  // namespace

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

void Loop::break_off(std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_off_) broken_off_ = std::move(cause);
  }
  wake_->notify_all();
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
    std::exception_ptr broken_off;
    {
      std::unique_lock lock(mutex_);
      runtime_.wait_until(*wake_, lock, next_wake_,
                          [this] { return stopping_ || !queue_.empty() || broken_off_; });
      if (stopping_ && queue_.empty()) return;
      commands.swap(queue_);
      broken_off = std::exchange(broken_off_, nullptr);
    }
    if (broken_off) end_with("work of the coordinator's own was lost: ", broken_off);
    turn(std::move(commands));
  }
}

void Loop::turn(std::deque<Command> commands) {
  if (journal_failure_) return refuse(commands, 0);
  Batch batch;
  try {
    if (change_state(commands, batch)) keep(batch);
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
  } catch (...) {
    // There is no memory to say what has been kept: a start from the journal knows.
    end_with("what was kept could not be told: ", std::current_exception());
    refuse(commands, 0);
  }
}

bool Loop::change_state(const std::deque<Command> &commands, Batch &batch) {
  std::size_t done = 0;
  try {
    const std::lock_guard lock(state_);
    if (const Time duration = std::exchange(held_up_, Time{0}); duration > Time{0})
      hooks_.on_held_up(duration, batch);
    for (; done < commands.size(); ++done) commands[done].run(batch);
    hooks_.on_time(runtime_.now(), batch);
    next_wake_ = hooks_.next_wake();
    return true;
  } catch (...) {
    end_with("a change of the coordinator's state broke off: ", std::current_exception());
  }
  batch.effects.clear();
  refuse(commands, done);
  return false;
}

void Loop::keep(Batch &batch) {
  if (batch.writes.empty()) return;
  const Time began = runtime_.now();
  if (commit(batch)) {
    const Time took = runtime_.now() - began;
    if (took < hooks_.held_up_min || took <= Time{0}) return;
    held_up_ = took;
    next_wake_ = began;
    return;
  }
  // What the state says and the journal does not is never acknowledged: no effect, and an error to every
  // caller.
  next_wake_.reset();
  batch.effects.clear();
}

bool Loop::commit(Batch &batch) {
  std::chrono::milliseconds pause = limits::kBackoffFirst;
  const Time began = runtime_.now();
  for (;;) {
    try {
      journal_.commit(batch.writes);
      set_failure({}, false);
      return true;
    } catch (const Error &error) {
      if (error.code() != ErrorCode::unavailable) {
        end_with("the journal is broken: ", std::current_exception());
        return false;
      }
      set_failure("the journal cannot be written: " + error.message(), false);
      answer_stalled(batch, runtime_.now() - began >= limits::kJournalReplyTimeout);
      std::unique_lock lock(mutex_);
      if (runtime_.wait_until(*wake_, lock, runtime_.now() + pause, [this] { return stopping_; })) {
        journal_failure_ = std::current_exception();
        return false;
      }
      pause = std::min<std::chrono::milliseconds>(2 * pause, limits::kJournalRetryMax);
    } catch (...) {
      end_with("the journal is broken: ", std::current_exception());
      return false;
    }
  }
}

void Loop::answer_stalled(Batch &batch, bool is_long) {
  std::deque<Command> queued;
  {
    const std::lock_guard lock(mutex_);
    for (Command &command : std::exchange(queue_, {}))
      (command.refuse ? queued : queue_).push_back(std::move(command));
  }
  const auto reason = std::make_exception_ptr(Error(ErrorCode::unavailable, failure()));
  for (const Command &command : queued) command.refuse(reason);
  for (const auto &look : std::exchange(batch.looks, {})) look(reason);
  if (!is_long || batch.replies.empty()) return;
  const auto unknown = std::make_exception_ptr(
      Error(ErrorCode::unavailable, failure() + "; it is tried again, so that this change may yet be made"));
  for (const auto &reply : std::exchange(batch.replies, {})) reply(unknown);
}

void Loop::refuse(const std::deque<Command> &commands, std::size_t from) {
  for (std::size_t i = from; i < commands.size(); ++i) {
    if (commands[i].refuse) commands[i].refuse(journal_failure_);
  }
}

void Loop::end_with(const std::string &what, std::exception_ptr cause) noexcept {
  if (journal_failure_) return;
  next_wake_.reset();
  journal_failure_ = cause;
  try {
    const std::string reason = what + system::sentence_of(cause);
    journal_failure_ = std::make_exception_ptr(Error(ErrorCode::unavailable, reason));
    set_failure(reason, true);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = kNoMemory;
  }
}

}  // namespace parsyn::coordinator
