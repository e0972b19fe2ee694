// What parsyn-worker is told.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/log_lines.hpp"

namespace parsyn::programs {

struct WorkerProgramOptions {
  std::string coordinator;
  std::filesystem::path token_file;
  std::filesystem::path cache;  ///< Empty: below the user's own cache folder.
  std::string device = "cpu";
  std::vector<std::string> data;  ///< NAME=PATH
  std::string data_label_column;
  std::filesystem::path ca_file;
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  bool allow_plain_http = false;
  bool finish_task = false;
  LogOptions log;
};

/// Nothing: go on. Else the exit code; what is to be said was printed.
std::optional<int> read_options(int argc, const char *const *argv, WorkerProgramOptions &options);

}  // namespace parsyn::programs
