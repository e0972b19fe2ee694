// Which process something belongs to. Threads do not survive fork(), and a lock that one of them held stays
// locked: in the child, what lives by threads is of no use, and even its destruction may never return.
//
// Thread-safety: every method may be called from any thread, and in a child.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string_view>

namespace parsyn::system {

class OwningProcess {
 public:
  /// False: fork() has made this process of the owner, or of a child of it.
  bool is_this() const { return ::getpid() == id_; }
  /// Throws Error(unsupported) where it is not. `what`: "the coordinator".
  void check(std::string_view what) const {
    if (!is_this()) refuse(what);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const;

  const pid_t id_ = ::getpid();
};

}  // namespace parsyn::system
