// The coordinator's REST API, with its errors as parsyn::Error.
//
// Thread-safety: as http::HttpClient.
#pragma once

#include <string>
#include <vector>

#include "http/http_client.hpp"
#include "job/options.hpp"
#include "job/values.hpp"

namespace parsyn::programs {

/// "/api/v1/training-jobs" and its like.
std::string path_of(Resource resource);
std::string path_of(Resource resource, std::uint64_t id);

class RestClient {
 public:
  /// Reads the token. Throws Error(invalid_argument, not_found) for options that do not hold.
  explicit RestClient(const ClientOptions &options);

  Json get(const std::string &path);
  Json post(const std::string &path, std::string body, const std::string &idempotency_key = {});
  void remove(const std::string &path);
  /// All pages.
  std::vector<Json> list(const std::string &path);

  /// A request to this coordinator, with the token.
  http::HttpClientRequest request(const std::string &method, const std::string &path) const;
  /// Throws the Error that an answer other than 2xx stands for.
  http::HttpClientResponse perform(const http::HttpClientRequest &request);
  /// Every running and later call throws Error(cancelled).
  void interrupt() { client_.interrupt(); }

  const std::string &base() const { return base_; }

 private:
  std::string base_;
  std::string token_;
  http::HttpClient client_;
};

}  // namespace parsyn::programs
