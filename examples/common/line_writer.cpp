#include "common/line_writer.hpp"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace parsyn::programs {
namespace {

/// What cannot be written - the reader is gone, the disk is full - is lost: there is nowhere to say so.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Somebody who shares the descriptor wants it so.
      pollfd ready{descriptor, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

/// A thread that gets no signal: those that ask a program to stop are for others.
template <typename Body>
std::thread thread_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(body));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

/// Shared with the thread, which a write may keep for longer than the writer lives.
struct LineWriter::State {
  State(int of, std::size_t max) : descriptor(of), lines_max(max) {}

  const int descriptor;
  const std::size_t lines_max;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;  // guarded by mutex, as all that follows
  std::uint64_t dropped = 0;      // after the last of `lines`
  std::function<std::string(std::uint64_t)> line_of_drops = [](std::uint64_t count) {
    return dropped_text(count) + "\n";
  };
  bool is_writing = false;
  bool waited_in_vain = false;
  bool is_ending = false;

  bool is_drained() const { return lines.empty() && dropped == 0 && !is_writing; }

  void queue_drops() {
    if (dropped > 0) lines.push_back(line_of_drops(std::exchange(dropped, 0)));
  }

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return is_ending || !lines.empty() || dropped > 0; });
      if (lines.empty()) queue_drops();
      if (lines.empty()) return;
      const std::string line = std::move(lines.front());
      lines.pop_front();
      is_writing = true;
      lock.unlock();
      write_all(descriptor, line);
      lock.lock();
      is_writing = false;
      waited_in_vain = false;
      changed.notify_all();
    }
  }
};

LineWriter::LineWriter(int descriptor, std::size_t lines_max)
    : state_(std::make_shared<State>(descriptor, lines_max)) {
  thread_without_signals([state = state_] { state->loop(); }).detach();
}

LineWriter::~LineWriter() {
  drain();
  const std::lock_guard lock(state_->mutex);
  state_->is_ending = true;
  state_->changed.notify_all();
}

void LineWriter::write(std::string line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() >= state_->lines_max) {
    ++state_->dropped;
    return;
  }
  state_->queue_drops();
  state_->lines.push_back(std::move(line));
  state_->changed.notify_all();
}

bool LineWriter::drain(std::chrono::milliseconds time_max) {
  std::unique_lock lock(state_->mutex);
  const auto time = state_->waited_in_vain ? std::chrono::milliseconds(0) : time_max;
  const bool drained = state_->changed.wait_for(lock, time, [this] { return state_->is_drained(); });
  state_->waited_in_vain = !drained;
  return drained;
}

void LineWriter::tell_drops_by(std::function<std::string(std::uint64_t)> line_of_drops) {
  const std::lock_guard lock(state_->mutex);
  state_->line_of_drops = std::move(line_of_drops);
}

std::string dropped_text(std::uint64_t lines) {
  if (lines == 1) return "1 line was dropped, as nobody read it";
  return std::to_string(lines) + " lines were dropped, as nobody read them";
}

LineWriter &stderr_lines() {
  static LineWriter writer(STDERR_FILENO);
  return writer;
}

}  // namespace parsyn::programs
