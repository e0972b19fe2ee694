#include "transport/client_options.hpp"

namespace parsyn::transport {

http::HttpClientOptions client_options(const HttpTransportOptions &options) {
  http::HttpClientOptions client;
  client.ca_file = options.ca_file;
  client.certificate_file = options.certificate_file;
  client.private_key_file = options.private_key_file;
  return client;
}

}  // namespace parsyn::transport
