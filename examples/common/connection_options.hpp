// The options of the programs that talk to a coordinator: how they reach it, but for --coordinator itself,
// whose default differs.
//
// Include it where settings.hpp is included.
//
// Thread-safety: of one thread.
#pragma once

#include <string>
#include <vector>

#include "common/settings.hpp"
#include "common/tls_files.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "transport/loopback.hpp"

namespace parsyn::programs {

/// `url`: the option that gives connection.url. Both arguments outlive `settings`.
inline void add_connection_options(Settings &settings, const CLI::Option *url,
                                   HttpTransportOptions &connection) {
  CLI::App &app = settings.app();
  settings.from_environment(
      app.add_option("--ca-file", connection.ca_file,
                     "Authority (PEM) of the coordinator's certificate (default: the system's)")
          ->check(readable_file())
          ->type_name("FILE"),
      "PARSYN_CA_FILE");
  const CLI::Option *certificate =
      settings.from_environment(app.add_option("--tls-certificate", connection.certificate_file,
                                               "Certificate (PEM) to show to the coordinator")
                                    ->check(readable_file())
                                    ->type_name("FILE"),
                                "PARSYN_TLS_CERTIFICATE");
  const CLI::Option *key = settings.from_environment(
      app.add_option("--tls-key", connection.private_key_file, "The certificate's private key (PEM)")
          ->check(readable_file())
          ->type_name("FILE"),
      "PARSYN_TLS_KEY");
  settings.from_environment(app.add_flag("--allow-plain-http", connection.allow_plain_http,
                                         "Send the token over plain HTTP beyond this machine"),
                            "PARSYN_ALLOW_PLAIN_HTTP");
  settings.rule({certificate, key}, [&connection] {
    return tls_pair_faults(connection.certificate_file, connection.private_key_file);
  });
  settings.rule({url}, [&connection]() -> std::vector<std::string> {
    // One that is required and missing is told already.
    if (connection.url.empty()) return {};
    try {
      transport::checked_base_url(connection.url, connection.allow_plain_http);
      return {};
    } catch (const Error &error) {
      return {"--coordinator: " + error.message()};
    }
  });
}

}  // namespace parsyn::programs
