#include "worker/options.hpp"

#include "common/connection_options.hpp"
#include "common/number_text.hpp"
#include "common/settings.hpp"

namespace parsyn::programs {
namespace {

constexpr std::uint64_t kCacheBytesLimit = std::uint64_t{1} << 60;

std::string device_fault(const std::string &text) {
  constexpr std::string_view kCuda = "cuda:";
  const bool known = text == "cpu" || (text.starts_with(kCuda) &&
                                       whole_number_fault(text.substr(kCuda.size()), 0, UINT32_MAX).empty());
  return known ? "" : "'" + text + "' is neither cpu nor cuda:N";
}

/// Fills `data` with the entries "NAME=PATH". Returns what is wrong with them.
std::vector<std::string> take_data(const std::vector<std::string> &entries, WorkerData &data) {
  std::vector<std::string> faults;
  for (const std::string &entry : entries) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size()) {
      faults.push_back("--data: '" + entry +
                       "' does not look like NAME=PATH, with the name of a local dataset");
    } else if (!data.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second) {
      faults.push_back("--data names the dataset " + entry.substr(0, equals) + " twice");
    }
  }
  return faults;
}

}  // namespace

std::optional<int> read_options(int argc, const char *const *argv, WorkerProgramOptions &options) {
  Settings settings("parsyn-worker",
                    "Trains for a coordinator: asks it for tasks, trains with libtorch, reports.");
  CLI::App &app = settings.app();
  const auto with = [&](CLI::Option *option, const char *variable) {
    return settings.from_environment(option, variable);
  };

  const CLI::Option *url =
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
  with(app.add_option("--device", options.device, "cpu or cuda:N")
           ->check(CLI::Validator(device_fault, ""))
           ->type_name("DEVICE")
           ->capture_default_str(),
       "PARSYN_DEVICE");
  std::vector<std::string> entries;
  const CLI::Option *data = app.add_option("--data", entries,
                                           "The worker's own examples for a local dataset, by the dataset's "
                                           "name; may be given several times")
                                ->type_name("NAME=PATH")
                                ->allow_extra_args(false);
  with(app.add_option("--data-label-column", options.data_label_column,
                      "Column of the labels in CSV files of --data (default: label, else the last one)")
           ->type_name("NAME"),
       "PARSYN_DATA_LABEL_COLUMN");
  add_connection_options(settings, url, options.connection);
  with(app.add_flag("--finish-task", options.finish_task,
                    "On SIGTERM end the current task first, however long that takes"),
       "PARSYN_FINISH_TASK");
  settings.add_log_options(options.log);
  settings.rule({data}, [&] { return take_data(entries, options.data); });
  return settings.parse(argc, argv);
}

}  // namespace parsyn::programs
