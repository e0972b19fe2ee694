#include "http/http_server.hpp"

#include <utility>

#include "http/server_core.hpp"

namespace parsyn::http {

struct HttpServer::State {
  std::shared_ptr<ServerCore> core;
};

HttpServer::HttpServer(const HttpServerOptions &options, std::vector<Route> routes)
    : state_(std::make_shared<State>()) {
  state_->core = std::make_shared<ServerCore>(options, std::move(routes));
  try {
    state_->core->start();
  } catch (...) {
    state_->core->stop();
    throw;
  }
}

HttpServer::~HttpServer() { stop(); }

std::uint16_t HttpServer::port() const { return state_->core->endpoint().port(); }

std::string HttpServer::url() const {
  const auto endpoint = state_->core->endpoint();
  const std::string address = endpoint.address().to_string();
  const bool tls = !state_->core->options().certificate_file.empty();
  return (tls ? "https://" : "http://") + (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

void HttpServer::stop() { state_->core->stop(); }

}  // namespace parsyn::http
