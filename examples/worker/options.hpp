// What parsyn-worker is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "common/log_lines.hpp"
#include "parsyn/http.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::programs {

/// Files of examples by the names of local datasets.
using WorkerData = std::map<std::string, std::filesystem::path>;

struct WorkerProgramOptions {
  HttpTransportOptions connection;  ///< Without the token.
  std::filesystem::path token_file;
  std::filesystem::path cache;  ///< Empty: below the user's own cache folder.
  std::uint64_t cache_bytes_max = limits::kWorkerCacheBytesMax;
  std::string device = "cpu";
  WorkerData data;
  std::string data_label_column;
  bool finish_task = false;
  LogOptions log;
};

/// Nothing: go on. Else the exit code; what is to be said was printed.
std::optional<int> read_options(int argc, const char *const *argv, WorkerProgramOptions &options);

}  // namespace parsyn::programs
