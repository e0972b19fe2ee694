#include "coordinator/options.hpp"

#include "common/listen_address.hpp"
#include "common/settings.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::programs {
namespace {

constexpr double kSecondsMax = 86'400;
constexpr std::uint64_t kThreadsMax = 1'024;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

/// What is wrong with the address; empty: nothing.
std::string listen_address_fault(const std::string &text) {
  try {
    parse_listen_address(text);
    return {};
  } catch (const Error &error) {
    return error.message();
  }
}

double seconds(std::chrono::milliseconds duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::optional<int> read_options(int argc, const char *const *argv, CoordinatorProgramOptions &options) {
  Settings settings("parsyn-coordinator",
                    "Keeps workers, datasets, models and jobs, and runs the rounds of federated training.");
  CLI::App &app = settings.app();
  const auto with = [&](CLI::Option *option, const char *variable) {
    return settings.from_environment(option, variable);
  };
  const CLI::Validator seconds_range = decimal_number(0.01, kSecondsMax);
  double heartbeat_interval = seconds(options.heartbeat_interval);
  double lease = seconds(options.lease);
  double join_window = seconds(options.join_window);

  settings.required(with(app.add_option("--state", options.state,
                                        "Folder of the journal, the operator's token and, unless --storage "
                                        "says otherwise, the objects; made at the first start")
                             ->type_name("DIR"),
                         "PARSYN_STATE"));
  with(app.add_option("--listen", options.listen, "Where to listen; port 0 takes a free one")
           ->type_name("HOST:PORT")
           ->check(CLI::Validator(listen_address_fault, ""))
           ->capture_default_str(),
       "PARSYN_LISTEN");
  with(app.add_option(
              "--storage", options.storage,
              "Where weights and partitions are kept: file:DIR or memory: (default file:STATE/objects)")
           ->type_name("PLACE"),
       "PARSYN_STORAGE");
  with(app.add_option("--tls-certificate", options.tls_certificate, "Certificate chain (PEM): serve HTTPS")
           ->type_name("FILE"),
       "PARSYN_TLS_CERTIFICATE");
  with(app.add_option("--tls-key", options.tls_key, "The certificate's private key (PEM)")->type_name("FILE"),
       "PARSYN_TLS_KEY");
  with(app.add_option("--client-ca", options.client_ca,
                      "Authority (PEM) of whom clients must show a certificate")
           ->type_name("FILE"),
       "PARSYN_CLIENT_CA");
  with(app.add_flag("--allow-plain-http", options.allow_plain_http, "Listen beyond this machine without TLS"),
       "PARSYN_ALLOW_PLAIN_HTTP");
  with(app.add_option("--heartbeat-interval", heartbeat_interval, "How often workers say that they are alive")
           ->type_name("SECONDS")
           ->check(seconds_range)
           ->capture_default_str(),
       "PARSYN_HEARTBEAT_INTERVAL");
  with(app.add_option("--lease", lease, "How long a silent worker is still taken for alive")
           ->type_name("SECONDS")
           ->check(seconds_range)
           ->capture_default_str(),
       "PARSYN_LEASE");
  with(app.add_option("--join-window", join_window, "How long a job with enough workers waits for more")
           ->type_name("SECONDS")
           ->check(decimal_number(0, kSecondsMax))
           ->capture_default_str(),
       "PARSYN_JOIN_WINDOW");
  with(app.add_option("--keep-rounds", options.keep_rounds,
                      "Global models of so many rounds are kept of each job, and the best one")
           ->type_name("N")
           ->check(whole_number(1, limits::kRoundsMax))
           ->capture_default_str(),
       "PARSYN_KEEP_ROUNDS");
  with(app.add_option("--threads", options.threads, "For checking and averaging updates; 0: one per core")
           ->type_name("N")
           ->check(whole_number(0, kThreadsMax))
           ->capture_default_str(),
       "PARSYN_THREADS");
  settings.add_log_options(options.log);

  if (const auto exit_code = settings.parse(argc, argv)) return exit_code;
  options.heartbeat_interval = milliseconds(heartbeat_interval);
  options.lease = milliseconds(lease);
  options.join_window = milliseconds(join_window);
  return std::nullopt;
}

}  // namespace parsyn::programs
