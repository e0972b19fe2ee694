#include "http/sigpipe.hpp"

#include <cerrno>
#include <ctime>

namespace parsyn::http {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool sigpipe_is_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

SigpipeBlocked::SigpipeBlocked() {
  const sigset_t sigpipe = only_sigpipe();
  pthread_sigmask(SIG_BLOCK, &sigpipe, &before_);
  // One that waited before is the host's own, and stays.
  was_pending_ = sigpipe_is_pending();
}

SigpipeBlocked::~SigpipeBlocked() {
  if (!was_pending_ && sigpipe_is_pending()) {
    const sigset_t sigpipe = only_sigpipe();
    const timespec at_once{};
    while (sigtimedwait(&sigpipe, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace parsyn::http
