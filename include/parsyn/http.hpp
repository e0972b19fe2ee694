// A coordinator over HTTP(S), on both sides: the REST API and the worker protocol (docs/rest.md,
// docs/openapi.json).
//
// Thread-safety: every method may be called from any thread.
// Lifetime: the coordinator outlives its server.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "parsyn/coordinator.hpp"
#include "parsyn/log.hpp"
#include "parsyn/transport.hpp"

namespace parsyn {

struct ServeOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0: any free one.
  /// Required, limits::kOperatorTokenBytesMin or longer: asked for on every request of the operator's, on
  /// loopback too.
  std::string operator_token = {};
  /// PEM; empty: plain HTTP, which is refused beyond loopback.
  std::filesystem::path certificate_file = {};
  std::filesystem::path private_key_file = {};
  /// Not empty: clients must show a certificate of this authority.
  std::filesystem::path client_ca_file = {};
  bool allow_plain_http = false;  ///< Listen beyond loopback without TLS all the same.
  std::chrono::milliseconds url_lifetime = limits::kUrlLifetime;
  unsigned handler_threads = 4;  ///< For operators and transfers; the worker protocol has its own.
  LogSink log = {};
};

class CoordinatorServer {
 public:
  /// Listens when it returns. Throws Error: invalid_argument, unavailable (the port is taken).
  CoordinatorServer(Coordinator &coordinator, const ServeOptions &options);
  ~CoordinatorServer();
  CoordinatorServer(const CoordinatorServer &) = delete;
  CoordinatorServer &operator=(const CoordinatorServer &) = delete;

  std::string url() const;
  std::uint16_t port() const;
  /// Idempotent; returns within limits::kStopBound, or when the last request that is being handled has ended,
  /// whichever is later: reading a dataset or a model is given up, but a flush to a disk that stands still,
  /// and a host's torchscript_importer, cannot be interrupted.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct HttpTransportOptions {
  std::string url = {};    ///< "http://127.0.0.1:8080"; https beyond loopback.
  std::string token = {};  ///< The worker's.
  std::filesystem::path ca_file = {};
  std::filesystem::path certificate_file = {};
  std::filesystem::path private_key_file = {};
  bool allow_plain_http = false;  ///< Send the token over plain HTTP beyond loopback all the same.
};

/// Throws Error(invalid_argument) for a URL that is none, or plain HTTP beyond loopback.
std::unique_ptr<Transport> make_http_transport(const HttpTransportOptions &options);

}  // namespace parsyn
