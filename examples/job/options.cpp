#include "job/options.hpp"

#include <memory>

#include "common/connection_options.hpp"
#include "common/settings.hpp"

namespace parsyn::programs {
namespace {

/// The subcommands. What one parses into lives in a shared value, so that the command can be taken over when
/// it was the one that is called.
class Commands {
 public:
  Commands(Settings &settings, Command &command)
      : settings_(settings), app_(settings.app()), command_(command) {
    // At most: CLI11 would tell a mistyped command only that one is missing.
    app_.require_subcommand(0, 1);
    app_.fallthrough();  // settings of all commands may also follow the command
  }

  bool is_called() const {
    // Of a group it is the command in it that is meant.
    const auto called = app_.get_subcommands();
    if (called.empty()) return false;
    return called.front()->get_subcommands([](const CLI::App *) { return true; }).empty() ||
           !called.front()->get_subcommands().empty();
  }

  void add_all() {
    add_job_commands();
    add_worker_commands();
    add_dataset_commands();
    add_model_commands();
  }

 private:
  template <typename Values>
  std::shared_ptr<Values> add(CLI::App &parent, const std::string &name, const std::string &purpose,
                              CLI::App *&sub, Values values = {}) {
    sub = parent.add_subcommand(name, purpose);
    sub->fallthrough();
    auto shared = std::make_shared<Values>(std::move(values));
    sub->final_callback([this, shared] { command_ = *shared; });
    return shared;
  }

  static void add_id(CLI::App &sub, std::uint64_t &id, const std::string &what) {
    sub.add_option("ID", id, what)->required()->check(whole_number());
  }

  CLI::App &group(const std::string &name, const std::string &purpose) {
    CLI::App *sub = app_.add_subcommand(name, purpose);
    sub->require_subcommand(0, 1);
    sub->fallthrough();
    return *sub;
  }

  void add_list_and_show(CLI::App &parent, Resource resource, const std::string &one,
                         const std::string &many) {
    CLI::App *sub = nullptr;
    add<List>(parent, "list", "List all " + many, sub, {resource});
    const auto show = add<Show>(parent, "show", "Show one " + one, sub, {resource, 0});
    add_id(*sub, show->id, "The " + one + "'s id");
  }

  void add_job_commands() {
    CLI::App *sub = nullptr;
    const auto submit =
        add<Submit>(app_, "submit", "Create a training job from its JSON document (docs/jobs.md)", sub);
    sub->add_option("FILE", submit->file,
                    "The document, from anything that can be read; - reads standard input")
        ->required();
    sub->add_flag("--watch", submit->watch, "Watch the job then");
    sub->add_option("--idempotency-key", submit->idempotency_key,
                    "The same key with the same document gives the same job")
        ->type_name("KEY");
    add_list_and_show(app_, Resource::job, "training job", "training jobs");
    const auto watch = add<Watch>(app_, "watch",
                                  "Follow a job to its end; exit code 0 when it completed or was stopped, 1 "
                                  "when it failed or was cancelled",
                                  sub);
    add_id(*sub, watch->id, "The job's id");
    const auto stop =
        add<End>(app_, "stop", "End a job after its current round and keep the last global model", sub);
    add_id(*sub, stop->id, "The job's id");
    const auto cancel = add<End>(app_, "cancel", "End a job at once", sub, {0, true});
    add_id(*sub, cancel->id, "The job's id");
    const auto download = add<Download>(app_, "download",
                                        "Fetch a job's global model (safetensors), checked by its SHA-256; "
                                        "goes on where an earlier try broke off",
                                        sub);
    add_id(*sub, download->id, "The job's id");
    sub->add_option("--round", download->round,
                    "After this round, or best: by validation loss (default: the last)")
        ->check(CLI::Validator([](const std::string &text) { return round_choice_fault(text); }, ""))
        ->type_name("N|best");
    sub->add_option("--output,-o", download->output, "Where to put it (default: job-ID.safetensors)")
        ->check(not_empty())
        ->type_name("FILE");
    sub->add_flag("--force", download->force, "Replace a file that is there already");
    const auto events = add<Events>(app_, "events", "Print a job's events so far", sub);
    add_id(*sub, events->id, "The job's id");
    sub->add_flag("--follow,-f", events->follow, "Go on until the job ends");
  }

  void add_worker_commands() {
    CLI::App &parent = group("worker", "Register, list and remove workers");
    CLI::App *sub = nullptr;
    const auto add_worker =
        add<WorkerAdd>(parent, "add", "Register a worker and tell its token, this once", sub);
    sub->add_option("--name", add_worker->name, "For people")->required()->type_name("NAME");
    sub->add_option("--kind", add_worker->kind, "own: your machine; parsyn: a rented one")
        ->check(CLI::IsMember({"own", "parsyn"}))
        ->capture_default_str();
    sub->add_option("--token-file", add_worker->token_file,
                    "Write the worker's token to this new file (mode 0600) instead of printing it. The "
                    "operator's token file is then named by PARSYN_TOKEN_FILE, or before the word worker")
        ->check(not_empty())
        ->type_name("FILE");
    add_list_and_show(parent, Resource::worker, "worker", "workers");
    const auto remove = add<WorkerRemove>(parent, "remove", "Revoke a worker's token and end its lease", sub);
    add_id(*sub, remove->id, "The worker's id");
  }

  void add_dataset_commands() {
    CLI::App &parent = group("dataset", "Register and list datasets");
    CLI::App *sub = nullptr;
    const auto dataset = add<DatasetAdd>(
        parent, "add", "Register a dataset from files that the coordinator reads (docs/datasets.md)", sub);
    sub->add_option("--name", dataset->name, "For people; local data are found by it")
        ->required()
        ->type_name("NAME");
    sub->add_flag("--local", dataset->local,
                  "The training examples stay with the workers (parsyn-worker --data NAME=PATH)");
    sub->add_option("--train", dataset->train, "Training examples")->type_name("PATH");
    sub->add_option("--train-labels", dataset->train_labels, "Their labels, for IDX (default: found by name)")
        ->type_name("PATH");
    sub->add_option("--validation", dataset->validation, "Validation examples")->type_name("PATH");
    sub->add_option("--validation-labels", dataset->validation_labels,
                    "Their labels, for IDX (default: found by name)")
        ->type_name("PATH");
    sub->add_option("--validation-fraction", dataset->validation_fraction,
                    "Take this share of the training examples for validation instead")
        ->check(decimal_number(0, 1))
        ->type_name("SHARE");
    sub->add_option("--split-seed", dataset->split_seed, "Seed of that draw")
        ->check(whole_number())
        ->type_name("N");
    sub->add_option("--format", dataset->format, "Of the files (default: detected)")
        ->check(CLI::IsMember({"detect", "idx", "csv", "jsonl", "safetensors"}));
    settings_.rule({}, [dataset] {
      std::vector<std::string> faults;
      if (dataset->train.empty() && !dataset->train_labels.empty())
        faults.emplace_back("--train-labels needs --train");
      if (dataset->validation.empty() && !dataset->validation_labels.empty())
        faults.emplace_back("--validation-labels needs --validation");
      return faults;
    });
    sub->add_option("--label-column", dataset->label_column,
                    "CSV: the labels' column (default: label, else the last one)")
        ->type_name("NAME");
    add_list_and_show(parent, Resource::dataset, "dataset", "datasets");
  }

  void add_model_commands() {
    CLI::App &parent = group("model", "Register and list models");
    CLI::App *sub = nullptr;
    const auto model = add<ModelAdd>(parent, "add", "Register a model", sub);
    sub->add_option("--name", model->name, "For people")->required()->type_name("NAME");
    sub->add_option(
           "--kind", model->kind,
           "mlp, torchscript (a scripted module's file) or custom (initial weights for trainers of your own)")
        ->check(CLI::IsMember({"mlp", "torchscript", "custom"}));
    sub->add_option("--sizes", model->sizes, "mlp: widths from input to output, as 784,200,200,10")
        ->delimiter(',')
        ->check(whole_number())
        ->allow_extra_args(false)
        ->type_name("N,N,...");
    sub->add_option("--activation", model->activation, "mlp: relu (the default), tanh, gelu or sigmoid")
        ->type_name("NAME");
    sub->add_option("--loss", model->loss, "cross_entropy (the default) or mse")->type_name("NAME");
    sub->add_option("--path", model->path, "torchscript: the module; custom: initial weights (safetensors)")
        ->type_name("PATH");
    sub->add_option("--from-job", model->from_job,
                    "Start from a job's global model: the last, after a round, or the best")
        ->check(CLI::Validator([](const std::string &text) { return job_and_round_fault(text); }, ""))
        ->type_name("ID[:ROUND|best]");
    add_list_and_show(parent, Resource::model, "model", "models");
  }

  Settings &settings_;
  CLI::App &app_;
  Command &command_;
};

}  // namespace

std::optional<int> read_options(int argc, const char *const *argv, JobProgramOptions &options) {
  Settings settings("parsyn-job",
                    "Talks to a coordinator: creates training jobs, watches them, fetches their models.");
  CLI::App &app = settings.app();
  ClientOptions &client = options.client;
  client.connection.url = "http://127.0.0.1:8080";
  const auto with = [&](CLI::Option *option, const char *variable) {
    return settings.from_environment(option, variable);
  };
  const CLI::Option *url = with(app.add_option("--coordinator", client.connection.url, "The coordinator")
                                    ->type_name("URL")
                                    ->capture_default_str(),
                                "PARSYN_COORDINATOR");
  const CLI::Option *token_file =
      with(app.add_option("--token-file", client.token_file,
                          "The operator's token: STATE/operator.token of the coordinator")
               ->type_name("FILE"),
           "PARSYN_TOKEN_FILE");
  add_connection_options(settings, url, client.connection);
  app.add_flag("--json", client.json, "JSON lines on stdout, and errors as JSON lines on stderr");
  app.add_option("--field", client.field,
                 "Of an answered document print only this field, as final_validation.loss")
      ->type_name("PATH");
  Commands commands(settings, options.command);
  commands.add_all();
  using Faults = std::vector<std::string>;
  settings.rule({token_file}, [&]() -> Faults {
    if (!client.token_file.empty()) return {};
    return {
        "the operator's token is needed: give --token-file STATE/operator.token, or set PARSYN_TOKEN_FILE"};
  });
  settings.rule({}, [&]() -> Faults {
    if (commands.is_called()) return {};
    return {"a command is missing"};
  });
  return settings.parse(argc, argv);
}

}  // namespace parsyn::programs
