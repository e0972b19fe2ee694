#include "common/process.hpp"

#include <sys/resource.h>

#include <csignal>

namespace parsyn::programs {

void ignore_broken_pipes() { std::signal(SIGPIPE, SIG_IGN); }

void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace parsyn::programs
