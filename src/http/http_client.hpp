// HTTP(S) requests, on cURL: the only client-side socket of parsyn.
//
// One call of perform is one request on HTTP/1.1: no redirect is followed, no encoding is asked for or
// undone, nothing is retried, and a time limit is on progress, never on the whole transfer. TLS is 1.2 or
// newer with the peer's name and certificate checked. Bodies stream from and to files. Never logs a URL's
// query or a header's value.
//
// Thread-safety: perform may be called from several threads at once; connections are kept and reused per
// client. interrupt() makes every running and later perform end at once with Error(cancelled).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/limits.hpp"

namespace parsyn::http {

/// Header names are compared without regard to case.
struct CaseInsensitiveLess {
  bool operator()(const std::string &a, const std::string &b) const;
};
using Headers = std::map<std::string, std::string, CaseInsensitiveLess>;

struct HttpClientOptions {
  std::filesystem::path ca_file;           ///< PEM; empty: the system's.
  std::filesystem::path certificate_file;  ///< PEM, for mutual TLS; empty: none.
  std::filesystem::path private_key_file;
  std::chrono::milliseconds connect_timeout = limits::kConnectTimeout;
  std::chrono::milliseconds idle_timeout = limits::kTransferIdleTimeout;  ///< Without one byte of progress.
};

struct HttpClientRequest {
  std::string method = "GET";
  std::string url;
  Headers headers;
  std::string body;  ///< Sent unless body_file is set.
  /// Streamed, from body_offset to its end, on a new connection.
  std::optional<std::filesystem::path> body_file;
  std::uint64_t body_offset = 0;
  /// A successful answer's body (200, 206) is streamed here instead of into HttpClientResponse::body. From
  /// `output_offset` on: what the file holds before stays, what it holds behind is cut. With output_offset >
  /// 0 the answer must be a 206 whose Content-Range starts there; a 200 starts the file anew from 0. The
  /// Range header is added unless `headers` has one; an If-Range with the ETag of what the file holds is the
  /// caller's to give.
  std::optional<std::filesystem::path> output_file;
  std::uint64_t output_offset = 0;
  unsigned output_mode = 0644;  ///< Permission bits of an output_file that is not there yet.
  std::uint64_t response_bytes_max =
      limits::kHttpJsonBytesMax;  ///< Of a body in memory; over it: Error(too_large).
  std::uint64_t output_bytes_max = limits::kUpdateBytesMax;
  /// May be longer than the client's idle time-out: the time that the peer may be silent before it answers.
  std::optional<std::chrono::milliseconds> idle_timeout;
  /// Called with bytes sent and received so far, at most ten times a second; returning false ends with
  /// Error(cancelled).
  std::function<bool(std::uint64_t sent, std::uint64_t received)> progress;
  /// For an endless answer (Server-Sent Events): each piece of the body as it comes; false ends the transfer
  /// quietly.
  std::function<bool(std::string_view piece)> on_body;
};

struct HttpClientResponse {
  int status = 0;
  Headers headers;
  std::string body;
  std::uint64_t body_bytes = 0;
  std::string sha256;  ///< Of the body's bytes as they came (of a 206: of this part only).

  std::string header(std::string_view name) const;  ///< Empty when absent.
};

/// What performs requests: the HttpClient, or a test's simulated network.
class Requester {
 public:
  virtual ~Requester() = default;

  /// Any status is an answer, not an exception. Throws Error: unavailable (no connection, or cut before the
  /// whole body came: the length is compared), timeout, too_large, protocol (not HTTP; a wrong
  /// Content-Range), unauthorized (TLS: certificate refused, on either side, in words), io (local files),
  /// cancelled, invalid_argument (URL; other schemes than http and https).
  virtual HttpClientResponse perform(const HttpClientRequest &request) = 0;
  /// Every running and later perform ends at once with Error(cancelled).
  virtual void interrupt() = 0;
};

class HttpClient final : public Requester {
 public:
  /// Throws Error(invalid_argument) when a certificate file cannot be read.
  explicit HttpClient(const HttpClientOptions &options = {});
  ~HttpClient() override;
  HttpClient(const HttpClient &) = delete;
  HttpClient &operator=(const HttpClient &) = delete;

  HttpClientResponse perform(const HttpClientRequest &request) override;
  void interrupt() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace parsyn::http
