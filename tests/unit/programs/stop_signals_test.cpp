// What a program does with the signals that ask it to stop.
#include "common/stop_signals.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/catch.hpp"

using namespace parsyn::programs;

namespace {

/// Of this process, which has them blocked: returns when it has been taken.
void send_and_wait_until_taken(int signal) {
  ::kill(::getpid(), signal);
  sigset_t waiting;
  do {
    ::sched_yield();
    sigpending(&waiting);
  } while (sigismember(&waiting, signal) == 1);
}

/// How a process ends that gets SIGTERM and then SIGINT, all at once.
int exit_code_after_two(std::chrono::milliseconds same_request) {
  const pid_t child = ::fork();
  if (child == 0) {
    StopSignals signals({}, same_request);
    ::kill(::getpid(), SIGTERM);
    if (signals.wait() != SIGTERM) _exit(1);
    send_and_wait_until_taken(SIGINT);
    // Is only taken when the one before it has been dealt with.
    send_and_wait_until_taken(SIGINT);
    _exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a stop signal that follows at once is the same request, a later one ends the process") {
  CHECK(exit_code_after_two(std::chrono::hours(1)) == 0);
  CHECK(exit_code_after_two(std::chrono::milliseconds(0)) == 128 + SIGINT);
}
