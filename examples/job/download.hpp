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
};

/// Fetches the model beside its place, goes on by range where an earlier try of the same object broke off,
/// checks the whole file's SHA-256 against what the coordinator says, and renames it. Throws Error:
/// not_found, conflict (no such round yet), unavailable, corrupt_data, io.
Downloaded download_model(RestClient &client, const Download &command);

}  // namespace parsyn::programs
