#include <algorithm>
#include <iterator>

#include "http/http_server.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "system/owning_process.hpp"
#include "transport/event_streams.hpp"
#include "transport/loopback.hpp"
#include "transport/partial_uploads.hpp"
#include "transport/routes.hpp"
#include "transport/signed_url.hpp"

namespace parsyn {
namespace {

/// Of the worker protocol alone. Several, because reports that wait together share one commit of the journal.
constexpr unsigned kWorkerProtocolThreads = 4;

http::HttpServerOptions server_options(const ServeOptions &options) {
  if (options.operator_token.size() < limits::kOperatorTokenBytesMin) {
    throw Error(ErrorCode::invalid_argument, "a coordinator's server needs an operator token of at least " +
                                                 std::to_string(limits::kOperatorTokenBytesMin) +
                                                 " bytes, as a shorter one can be guessed");
  }
  const bool tls = !options.certificate_file.empty();
  if (!tls && !options.allow_plain_http && !transport::is_loopback_host(options.address)) {
    throw Error(ErrorCode::invalid_argument,
                "refusing to listen on " + options.address +
                    " without TLS: tokens and weights would be open to everyone on the way. Give "
                    "--tls-certificate and --tls-key, listen on 127.0.0.1, or say that you want it "
                    "(--allow-plain-http)");
  }
  http::HttpServerOptions server;
  server.address = options.address;
  server.port = options.port;
  server.certificate_file = options.certificate_file;
  server.private_key_file = options.private_key_file;
  server.client_ca_file = options.client_ca_file;
  server.handler_threads = options.handler_threads;
  server.reserved_threads = kWorkerProtocolThreads;
  server.log = options.log;
  return server;
}

}  // namespace

class CoordinatorServer::Impl {
 public:
  Impl(Coordinator &coordinator, const ServeOptions &options)
      : signer_(std::make_shared<const transport::UrlSigner>(options.url_lifetime)),
        uploads_(coordinator.worker_service()),
        streams_(coordinator, options.log),
        server_(server_options(options), routes(coordinator, options)) {}

  ~Impl() { stop(); }

  const system::OwningProcess process;

  void stop() {
    streams_.stop();
    server_.stop();
  }

  const http::HttpServer &server() const { return server_; }

 private:
  std::vector<http::Route> routes(Coordinator &coordinator, const ServeOptions &options) {
    std::vector<http::Route> all = transport::health_routes(coordinator);
    const auto append = [&](std::vector<http::Route> more) {
      std::ranges::move(more, std::back_inserter(all));
    };
    append(transport::operator_routes(coordinator, streams_, options.operator_token));
    append(transport::worker_routes(coordinator.worker_service(), signer_));
    append(transport::object_routes(coordinator.worker_service(), signer_, uploads_));
    return all;
  }

  std::shared_ptr<const transport::UrlSigner> signer_;
  transport::PartialUploads uploads_;
  transport::EventStreams streams_;
  http::HttpServer server_;  // last: it ends before what its routes use
};

CoordinatorServer::CoordinatorServer(Coordinator &coordinator, const ServeOptions &options)
    : impl_(std::make_unique<Impl>(coordinator, options)) {}
CoordinatorServer::~CoordinatorServer() {
  // In a child of a fork() there is nothing to join, and locks may be held for ever.
  if (!impl_->process.is_this()) static_cast<void>(impl_.release());
}
std::string CoordinatorServer::url() const { return impl_->server().url(); }
std::uint16_t CoordinatorServer::port() const { return impl_->server().port(); }
void CoordinatorServer::stop() {
  if (impl_->process.is_this()) impl_->stop();
}

}  // namespace parsyn
