// Lines for a file descriptor that perhaps nobody reads: whoever has a line never waits for it.
//
// A pipe that is not read and a terminal that is stopped block a write for as long as they like. So a thread
// of its own writes, from a queue with a limit; what comes when the queue is full is dropped and counted, and
// a line tells how many were when it goes on.
//
// Thread-safety: every method may be called from any thread; lines are written as wholes, in the order of
// write().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace parsyn::programs {

inline constexpr std::size_t kQueuedLinesMax = 10'000;
/// How long the end of a program waits for a reader.
inline constexpr std::chrono::milliseconds kDrainTime{1'000};

class LineWriter {
 public:
  /// The descriptor stays the caller's, and open until the process ends: a write that blocks outlives this
  /// object.
  explicit LineWriter(int descriptor, std::size_t lines_max = kQueuedLinesMax);
  /// As drain(kDrainTime).
  ~LineWriter();
  LineWriter(const LineWriter &) = delete;
  LineWriter &operator=(const LineWriter &) = delete;

  /// `line` with its end.
  void write(std::string line);
  /// Waits until all lines are written, or for so long. Where it was in vain before and nothing was written
  /// since, it does not wait again. False: there are lines left.
  bool drain(std::chrono::milliseconds time_max = kDrainTime);
  /// What makes of a number of dropped lines the line, with its end, that tells of them.
  void tell_drops_by(std::function<std::string(std::uint64_t)> line_of_drops);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// "2 lines were dropped, as nobody read them".
std::string dropped_text(std::uint64_t lines);

/// Of this process's stderr: the programs write to it by nothing else.
LineWriter &stderr_lines();

}  // namespace parsyn::programs
