#include "coordinator/options.hpp"

#include "common/listen_address.hpp"
#include "common/settings.hpp"
#include "common/tls_files.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "storage/store_location.hpp"
#include "transport/loopback.hpp"

namespace parsyn::programs {
namespace {

constexpr double kSecondsMax = 86'400;
constexpr std::uint64_t kThreadsMax = 1'024;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

/// What is wrong with a value that `use` takes; empty: nothing.
template <typename Use>
CLI::Validator usable(const Use &use) {
  return {[use](const std::string &text) {
            try {
              use(text);
              return std::string();
            } catch (const Error &error) {
              return error.message();
            }
          },
          ""};
}

std::string storage_beside(const std::filesystem::path &state) {
  return "file:" + (state / "objects").string();
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
  std::string listen_text = "127.0.0.1:8080";

  const CLI::Option *state = settings.required(
      with(app.add_option("--state", options.state,
                          "Folder of the journal, the operator's token and, unless --storage "
                          "says otherwise, the objects; made at the first start")
               ->type_name("DIR"),
           "PARSYN_STATE"));
  const CLI::Option *listen =
      with(app.add_option("--listen", listen_text, "Where to listen; port 0 takes a free one")
               ->type_name("HOST:PORT")
               ->check(usable(parse_listen_address))
               ->capture_default_str(),
           "PARSYN_LISTEN");
  with(app.add_option(
              "--storage", options.storage,
              "Where weights and partitions are kept: file:DIR or memory: (default file:STATE/objects)")
           ->check(usable([](const std::string &text) {
             if (!text.empty()) storage::folder_of_location(text);
           }))
           ->type_name("PLACE"),
       "PARSYN_STORAGE");
  const CLI::Option *certificate = with(
      app.add_option("--tls-certificate", options.tls_certificate, "Certificate chain (PEM): serve HTTPS")
          ->check(readable_file())
          ->type_name("FILE"),
      "PARSYN_TLS_CERTIFICATE");
  const CLI::Option *key =
      with(app.add_option("--tls-key", options.tls_key, "The certificate's private key (PEM)")
               ->check(readable_file())
               ->type_name("FILE"),
           "PARSYN_TLS_KEY");
  const CLI::Option *client_ca =
      with(app.add_option("--client-ca", options.client_ca,
                          "Authority (PEM) of whom clients must show a certificate")
               ->check(readable_file())
               ->type_name("FILE"),
           "PARSYN_CLIENT_CA");
  with(app.add_flag("--allow-plain-http", options.allow_plain_http, "Listen beyond this machine without TLS"),
       "PARSYN_ALLOW_PLAIN_HTTP");
  const CLI::Option *heartbeat = with(
      app.add_option("--heartbeat-interval", heartbeat_interval, "How often workers say that they are alive")
          ->type_name("SECONDS")
          ->check(seconds_range)
          ->capture_default_str(),
      "PARSYN_HEARTBEAT_INTERVAL");
  const CLI::Option *lease_option =
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

  using Faults = std::vector<std::string>;
  settings.rule({state}, [&]() -> Faults {
    if (!options.storage.empty() || options.state.empty()) return {};
    try {
      storage::folder_of_location(storage_beside(options.state));
      return {};
    } catch (const Error &error) {
      return {"--state: " + error.message() + "; or name another place with --storage"};
    }
  });
  settings.rule({certificate, key},
                [&] { return tls_pair_faults(options.tls_certificate, options.tls_key); });
  settings.rule({client_ca, certificate, key}, [&]() -> Faults {
    if (options.client_ca.empty() || !options.tls_certificate.empty() || !options.tls_key.empty()) return {};
    return {"--client-ca needs TLS: give --tls-certificate and --tls-key"};
  });
  settings.rule({listen, certificate, key}, [&]() -> Faults {
    const std::string host = parse_listen_address(listen_text).host;
    if (options.allow_plain_http || !options.tls_certificate.empty() || !options.tls_key.empty() ||
        transport::is_loopback_host(host))
      return {};
    return {
        "--listen: on " + host +
        " without TLS tokens and weights would be open to everyone on the way: give --tls-certificate and "
        "--tls-key, listen on 127.0.0.1, or say that you want it (--allow-plain-http)"};
  });
  settings.rule({heartbeat, lease_option}, [&]() -> Faults {
    if (milliseconds(lease) >= 2 * milliseconds(heartbeat_interval)) return {};
    return {"--lease must be at least twice --heartbeat-interval, " + decimal_text(heartbeat_interval) +
            " s, so that one lost heartbeat ends no lease"};
  });

  if (const auto exit_code = settings.parse(argc, argv)) return exit_code;
  options.listen = parse_listen_address(listen_text);
  if (options.storage.empty()) options.storage = storage_beside(options.state);
  options.heartbeat_interval = milliseconds(heartbeat_interval);
  options.lease = milliseconds(lease);
  options.join_window = milliseconds(join_window);
  return std::nullopt;
}

}  // namespace parsyn::programs
