#include "coordinator/loop.hpp"

#include <utility>

namespace parsyn::coordinator {

Loop::Loop(Journal &journal, std::mutex &state, Hooks hooks)
    : journal_(journal), state_(state), hooks_(std::move(hooks)), thread_([this] { run(); }) {}

Time Loop::now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

void Loop::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw Error(ErrorCode::cancelled, "the coordinator has been stopped");
    queue_.push_back(std::move(command));
  }
  wake_.notify_one();
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  std::call_once(joined_, [this] { thread_.join(); });
}

void Loop::run() {
  for (;;) {
    std::deque<Command> commands;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return stopping_ || !queue_.empty(); };
      if (next_wake_) {
        wake_.wait_until(lock, std::chrono::steady_clock::time_point(*next_wake_), ready);
      } else {
        wake_.wait(lock, ready);
      }
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
    hooks_.on_time(now(), batch);
    next_wake_ = hooks_.next_wake();
  }
  try {
    if (!batch.writes.empty()) journal_.commit(batch.writes);
  } catch (...) {
    // What the state says and the journal does not is never acknowledged: no effect, and an error to every
    // caller.
    journal_failure_ = std::current_exception();
    next_wake_.reset();
    batch.effects.clear();
  }
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

}  // namespace parsyn::coordinator
