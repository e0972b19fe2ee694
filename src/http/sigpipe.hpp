// Keeps a write to a closed socket from ending the host's process, without touching the host's signal
// handlers.
#pragma once

#include <csignal>

namespace parsyn::http {

/// While it lives, SIGPIPE is blocked in this thread; one that a write of this thread raised meanwhile is
/// taken away before the thread's mask is as it was.
class SigpipeBlocked {
 public:
  SigpipeBlocked();
  ~SigpipeBlocked();
  SigpipeBlocked(const SigpipeBlocked &) = delete;
  SigpipeBlocked &operator=(const SigpipeBlocked &) = delete;

 private:
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace parsyn::http
