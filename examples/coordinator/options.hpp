// What parsyn-coordinator is told.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "common/listen_address.hpp"
#include "common/log_lines.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::programs {

struct CoordinatorProgramOptions {
  std::filesystem::path state;
  ListenAddress listen;
  std::string storage;
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  std::filesystem::path client_ca;
  bool allow_plain_http = false;
  std::chrono::milliseconds heartbeat_interval = limits::kHeartbeatInterval;
  std::chrono::milliseconds lease = limits::kLeaseDuration;
  std::chrono::milliseconds join_window = limits::kJoinWindow;
  std::uint32_t keep_rounds = limits::kKeepRoundsDefault;
  unsigned threads = 0;
  LogOptions log;
};

/// Nothing: go on. Else the exit code; what is to be said was printed.
std::optional<int> read_options(int argc, const char *const *argv, CoordinatorProgramOptions &options);

}  // namespace parsyn::programs
