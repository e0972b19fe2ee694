// parsyn-job: the coordinator's REST API from a command line.
#include <cstdio>

#include "common/process.hpp"
#include "common/program.hpp"
#include "job/commands.hpp"
#include "job/download.hpp"
#include "job/options.hpp"
#include "job/printing.hpp"
#include "job/rest_client.hpp"
#include "job/watch.hpp"

namespace parsyn::programs {
namespace {

/// One overload for each command.
struct Runner {
  RestClient &client;
  const ClientOptions &options;

  int operator()(const Submit &command) const { return submit_job(client, options, command); }
  int operator()(const List &command) const {
    print_list(options, command.resource, client.list(path_of(command.resource)));
    return kWorked;
  }
  int operator()(const Show &command) const {
    const Json document = client.get(path_of(command.resource, command.id));
    print_document(options, document, describe(command.resource, document));
    return kWorked;
  }
  int operator()(const Watch &command) const { return watch_job(client, options, command.id); }
  int operator()(const End &command) const { return end_job(client, options, command); }
  int operator()(const Download &command) const {
    const Downloaded model = download_model(client, command);
    const std::string path = model.path.string();
    print_document(options,
                   {{"path", path}, {"bytes", model.bytes}, {"sha256", model.sha256}, {"round", model.round}},
                   "model: " + path + "\nsha256: " + model.sha256 + "\nround: " + round_text(model) + "\n");
    return kWorked;
  }
  int operator()(const Events &command) const { return print_events(client, options, command); }
  int operator()(const WorkerAdd &command) const { return add_worker(client, options, command); }
  int operator()(const WorkerRemove &command) const { return remove_worker(client, options, command); }
  int operator()(const DatasetAdd &command) const { return add_dataset(client, options, command); }
  int operator()(const ModelAdd &command) const { return add_model(client, options, command); }
};

}  // namespace
}  // namespace parsyn::programs

int main(int argc, char **argv) {
  using namespace parsyn::programs;
  ignore_broken_pipes();
  JobProgramOptions options;
  if (const auto exit_code = read_options(argc, argv, options)) return *exit_code;
  return run_program({.name = "parsyn-job", .json_errors = options.client.json}, [&] {
    RestClient client(options.client);
    return std::visit(Runner{client, options.client}, options.command);
  });
}
