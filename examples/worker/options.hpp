// What parsyn-worker is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/log_lines.hpp"
#include "parsyn/http.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::programs {

struct WorkerProgramOptions {
  HttpTransportOptions connection;  ///< Without the token.
  std::filesystem::path token_file;
  std::filesystem::path cache;  ///< Empty: below the user's own cache folder.
  std::uint64_t cache_bytes_max = limits::kWorkerCacheBytesMax;
  std::string device = "cpu";
  std::vector<std::string> data;  ///< NAME=PATH
  std::string data_label_column;
  bool finish_task = false;
  LogOptions log;
};

/// Nothing: go on. Else the exit code; what is to be said was printed.
std::optional<int> read_options(int argc, const char *const *argv, WorkerProgramOptions &options);

}  // namespace parsyn::programs
