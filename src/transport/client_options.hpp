// How a client reaches a coordinator: for the worker's transport, and for clients of the REST API.
#pragma once

#include "http/http_client.hpp"
#include "parsyn/http.hpp"

namespace parsyn::transport {

/// The certificates of these options.
http::HttpClientOptions client_options(const HttpTransportOptions &options);

}  // namespace parsyn::transport
