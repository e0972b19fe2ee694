#include "worker/options.hpp"

#include "common/settings.hpp"

namespace parsyn::programs {
namespace {

constexpr std::uint64_t kCacheBytesLimit = std::uint64_t{1} << 60;

}  // namespace

std::optional<int> read_options(int argc, const char *const *argv, WorkerProgramOptions &options) {
  Settings settings("parsyn-worker",
                    "Trains for a coordinator: asks it for tasks, trains with libtorch, reports.");
  CLI::App &app = settings.app();
  const auto with = [&](CLI::Option *option, const char *variable) {
    return settings.from_environment(option, variable);
  };

  settings.required(with(app.add_option("--coordinator", options.connection.url,
                                        "The coordinator, as http://127.0.0.1:8080 or https://host:port")
                             ->type_name("URL"),
                         "PARSYN_COORDINATOR"));
  settings.required(with(app.add_option("--token-file", options.token_file,
                                        "The worker's token, as parsyn-job worker add told it")
                             ->type_name("FILE"),
                         "PARSYN_WORKER_TOKEN_FILE"));
  with(app.add_option("--cache", options.cache,
                      "Folder for partitions and weights, of this worker alone (default: one below "
                      "$XDG_CACHE_HOME/parsyn or ~/.cache/parsyn)")
           ->type_name("DIR"),
       "PARSYN_CACHE");
  with(app.add_option("--cache-size", options.cache_bytes_max,
                      "Most bytes of partitions and weights in the cache, as 800MB or 50GiB; what was used "
                      "longest ago goes first, never what the current task uses (default: 50GiB)")
           ->transform(CLI::AsSizeValue(true).description(""))
           // Before the transformation, although it comes after it here: it reads -1 as the greatest of all.
           ->transform(CLI::Validator([](const std::string &text) { return size_fault(text); }, ""))
           ->check(CLI::Range(std::uint64_t{0}, kCacheBytesLimit).description(""))
           ->type_name("SIZE"),
       "PARSYN_CACHE_SIZE");
  with(
      app.add_option("--device", options.device, "cpu or cuda:N")->type_name("DEVICE")->capture_default_str(),
      "PARSYN_DEVICE");
  app.add_option(
         "--data", options.data,
         "The worker's own examples for a local dataset, by the dataset's name; may be given several times")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false);
  with(app.add_option("--data-label-column", options.data_label_column,
                      "Column of the labels in CSV files of --data (default: label, else the last one)")
           ->type_name("NAME"),
       "PARSYN_DATA_LABEL_COLUMN");
  with(app.add_option("--ca-file", options.connection.ca_file,
                      "Authority (PEM) of the coordinator's certificate (default: the system's)")
           ->type_name("FILE"),
       "PARSYN_CA_FILE");
  with(app.add_option("--tls-certificate", options.connection.certificate_file,
                      "Certificate (PEM) to show to the coordinator")
           ->type_name("FILE"),
       "PARSYN_TLS_CERTIFICATE");
  with(app.add_option("--tls-key", options.connection.private_key_file, "The certificate's private key (PEM)")
           ->type_name("FILE"),
       "PARSYN_TLS_KEY");
  with(app.add_flag("--allow-plain-http", options.connection.allow_plain_http,
                    "Send the token over plain HTTP beyond this machine"),
       "PARSYN_ALLOW_PLAIN_HTTP");
  with(app.add_flag("--finish-task", options.finish_task,
                    "On SIGTERM end the current task first, however long that takes"),
       "PARSYN_FINISH_TASK");
  settings.add_log_options(options.log);
  return settings.parse(argc, argv);
}

}  // namespace parsyn::programs
