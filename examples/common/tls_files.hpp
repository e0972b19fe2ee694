// A certificate and its private key, as --tls-certificate and --tls-key name them.
//
// Thread-safety: a free function without state.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace parsyn::programs {

/// What is wrong with the two, in sentences that name the flags.
inline std::vector<std::string> tls_pair_faults(const std::filesystem::path &certificate,
                                                const std::filesystem::path &key) {
  if (certificate.empty() == key.empty()) return {};
  return {std::string(certificate.empty() ? "--tls-key needs --tls-certificate"
                                          : "--tls-certificate needs --tls-key") +
          ": they go together"};
}

}  // namespace parsyn::programs
