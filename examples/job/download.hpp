// parsyn-job download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "job/options.hpp"
#include "job/rest_client.hpp"

namespace parsyn::programs {

struct Downloaded {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::string sha256;
  std::uint64_t round = 0;    ///< After which the job had this model; 0: the initial one.
  bool is_untrained = false;  ///< No round of the job has completed.
};

/// Fetches the model beside its place, goes on by range where an earlier try of the same object broke off,
/// checks the whole file's SHA-256 against what the coordinator says, and renames it. Where --output is a
/// symbolic link, the file that it leads to is the one written. Throws WrongUsage before the first byte where
/// something else than a regular file has that name. Throws Error: conflict (a file is there, and
/// Download::force is not set; that before the first byte, too), not_found (no such round), unavailable,
/// corrupt_data, io.
Downloaded download_model(RestClient &client, const Download &command);

/// "3", or "0, the initial model".
std::string round_text(const Downloaded &model);

}  // namespace parsyn::programs
