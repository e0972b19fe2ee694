// What parsyn-job is told: the settings of all commands, and one command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parsyn/http.hpp"

namespace parsyn::programs {

struct ClientOptions {
  HttpTransportOptions connection;  ///< Without the token.
  std::filesystem::path token_file;
  bool json = false;  ///< JSON lines instead of text.
  std::string field;  ///< Not empty: of an answered document only this field, by its dotted path.
};

enum class Resource { job, worker, dataset, model };

struct Submit {
  std::string file;  ///< "-": standard input.
  bool watch = false;
  std::string idempotency_key;
};
struct List {
  Resource resource = Resource::job;
};
struct Show {
  Resource resource = Resource::job;
  std::uint64_t id = 0;
};
struct Watch {
  std::uint64_t id = 0;
};
struct End {
  std::uint64_t id = 0;
  bool at_once = false;  ///< cancel; else stop.
};
struct Download {
  std::uint64_t id = 0;
  std::string round;             ///< A number or "best"; empty: the last.
  std::filesystem::path output;  ///< Empty: job-ID.safetensors.
  bool force = false;            ///< Replace a file that is there already.
};
struct Events {
  std::uint64_t id = 0;
  bool follow = false;
};
struct WorkerAdd {
  std::string name;
  std::string kind = "own";
  std::filesystem::path token_file;  ///< Not empty: the token goes there instead of to the output.
};
struct WorkerRemove {
  std::uint64_t id = 0;
};
struct DatasetAdd {
  std::string name;
  bool local = false;
  std::string train;
  std::string train_labels;
  std::string validation;
  std::string validation_labels;
  std::optional<double> validation_fraction;
  std::optional<std::uint64_t> split_seed;
  std::string format;
  std::string label_column;
};
struct ModelAdd {
  std::string name;
  std::string kind;
  std::vector<std::uint64_t> sizes;
  std::string activation;
  std::string loss;
  std::string path;
  std::string from_job;  ///< ID, ID:ROUND or ID:best.
};

using Command = std::variant<Submit, List, Show, Watch, End, Download, Events, WorkerAdd, WorkerRemove,
                             DatasetAdd, ModelAdd>;

struct JobProgramOptions {
  ClientOptions client;
  Command command;
};

/// Nothing: go on. Else the exit code; what is to be said was printed.
std::optional<int> read_options(int argc, const char *const *argv, JobProgramOptions &options);

}  // namespace parsyn::programs
