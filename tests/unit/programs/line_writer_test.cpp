// Log lines for a pipe that is read, read late, or never.
#include "common/line_writer.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace parsyn::programs;

namespace {

class Pipe {
 public:
  Pipe() { REQUIRE(::pipe(ends_.data()) == 0); }
  ~Pipe() {
    stop_reading();
    stop_writing();
  }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;

  int in() const { return ends_[1]; }
  void stop_reading() { close(ends_[0]); }
  void stop_writing() { close(ends_[1]); }

  /// Empty: there are no more.
  std::string read_line() const {
    std::string line;
    char c = 0;
    while (::read(ends_[0], &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  /// Up to `last`, or all.
  std::vector<std::string> read_lines(const std::string &last = {}) const {
    std::vector<std::string> lines;
    for (std::string line = read_line(); !line.empty(); line = read_line()) {
      lines.push_back(line);
      if (line == last) break;
    }
    return lines;
  }

 private:
  static void close(int &end) {
    if (end >= 0) ::close(end);
    end = -1;
  }

  std::array<int, 2> ends_{-1, -1};
};

constexpr std::size_t kLineCharacters = 20'000;

/// So long that a pipe takes less than ten of them.
std::string long_line(int number) {
  std::string line = std::to_string(number);
  line.resize(kLineCharacters, '.');
  return line;
}

}  // namespace

TEST_CASE("lines come in their order, and are all there when the writer has ended") {
  Pipe pipe;
  {
    LineWriter writer(pipe.in());
    for (int i = 0; i < 1'000; ++i) writer.write(std::to_string(i) + "\n");
  }
  pipe.stop_writing();
  const auto lines = pipe.read_lines();
  REQUIRE(lines.size() == 1'000);
  for (int i = 0; i < 1'000; ++i) CHECK(lines[static_cast<std::size_t>(i)] == std::to_string(i));
}

TEST_CASE("whoever writes does not wait for a pipe that nobody reads, and is told later what was dropped") {
  constexpr int kLines = 200;
  Pipe pipe;
  int next = 0;
  int dropped = 0;
  {
    LineWriter writer(pipe.in(), 10);
    for (int i = 0; i < kLines; ++i) writer.write(long_line(i) + "\n");
    CHECK_FALSE(writer.drain(std::chrono::milliseconds(1)));
    // Each line is there or counted, where it would be.
    while (next < kLines) {
      const std::string line = pipe.read_line();
      if (line.find("dropped, as nobody read") == std::string::npos) {
        REQUIRE(line == long_line(next));
        ++next;
      } else {
        dropped += std::stoi(line);
        next += std::stoi(line);
      }
    }
    writer.write("after it\n");
  }
  CHECK(next == kLines);
  CHECK(dropped > 100);
  CHECK(pipe.read_line() == "after it");
}

TEST_CASE("one dropped line is one") { CHECK(dropped_text(1) == "1 line was dropped, as nobody read it"); }

TEST_CASE("the end of a program waits for a reader, but not for long") {
  // The thread's write outlives its writer: so does the pipe.
  static Pipe pipe;
  const auto start = std::chrono::steady_clock::now();
  {
    LineWriter writer(pipe.in());
    for (int i = 0; i < 100; ++i) writer.write(long_line(i) + "\n");
    CHECK_FALSE(writer.drain());
    // A second wait for the same reader is in vain, too.
    CHECK_FALSE(writer.drain());
  }
  const auto waited = std::chrono::steady_clock::now() - start;
  CHECK(waited >= kDrainTime);
  CHECK(waited < 10 * kDrainTime);
}

TEST_CASE("lines for a reader that is gone are lost, and nothing else is") {
  Pipe pipe;
  pipe.stop_reading();
  LineWriter writer(pipe.in());
  for (int i = 0; i < 100; ++i) writer.write("line\n");
  CHECK(writer.drain(std::chrono::seconds(20)));
}
