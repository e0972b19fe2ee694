// Signed URLs of the coordinator's own objects: short-lived secrets that name a method, an object and a
// worker.
//
// The signature is HMAC-SHA-256 over method, key, worker and expiry, under a secret that lives as long as the
// server: after a restart, URLs are asked for anew. Besides the signature, access ends with the task: the
// server asks the WorkerService at each use.
//
// Thread-safety: immutable. Lifetime: the runtime, whose wall clock says what has expired, outlives it.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "parsyn/job_config.hpp"
#include "system/runtime.hpp"

namespace parsyn::transport {

class UrlSigner {
 public:
  explicit UrlSigner(std::chrono::milliseconds lifetime, system::Runtime &runtime = system::system_runtime());

  /// A path with its query: "/api/v1/objects/KEY?worker=1&expires=...&signature=...".
  std::string sign(std::string_view method, std::string_view key, Id worker) const;
  /// The worker that the URL was made for. Throws Error(forbidden), with a fault of code kUrlExpired, for a
  /// signature that does not fit and for a URL whose time is over. Whoever asks for a fresh one is known by
  /// its token, so that an invented signature gains nothing.
  Id verify(std::string_view method, std::string_view key,
            const std::map<std::string, std::string> &query) const;

 private:
  std::string signature(std::string_view method, std::string_view key, std::string_view worker,
                        std::string_view expires) const;

  std::chrono::milliseconds lifetime_;
  system::Runtime &runtime_;
  std::string secret_;
};

}  // namespace parsyn::transport
