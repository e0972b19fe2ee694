// The worker's side over HTTP with a client of choice: what make_http_transport of the contract does with
// cURL, and tests on a simulated network.
#pragma once

#include <functional>
#include <memory>

#include "http/http_client.hpp"
#include "parsyn/http.hpp"

namespace parsyn::transport {

using MakeRequester = std::function<std::unique_ptr<http::Requester>(const http::HttpClientOptions &)>;

/// Makes two clients: one that interrupt() interrupts, and one for the goodbye after it.
std::unique_ptr<Transport> make_http_transport(const HttpTransportOptions &options,
                                               const MakeRequester &make_client);

}  // namespace parsyn::transport
