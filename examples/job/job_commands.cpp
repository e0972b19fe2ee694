// submit, stop, cancel.
#include <iostream>
#include <iterator>

#include "job/commands.hpp"
#include "job/printing.hpp"
#include "job/watch.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "system/files.hpp"

namespace parsyn::programs {
namespace {

std::string read_document(const std::string &file) {
  if (file != "-") return system::read_text_file(file, limits::kHttpJsonBytesMax);
  std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw Error(ErrorCode::invalid_argument, "standard input has no job in it");
  return text;
}

}  // namespace

int submit_job(RestClient &client, const ClientOptions &options, const Submit &command) {
  // As it is: the coordinator tells every fault of the text itself, with the names of its fields.
  const Json job = client.post(path_of(Resource::job), read_document(command.file), command.idempotency_key);
  const std::string id = text_at(job, "id");
  std::string text =
      "job " + id + " (" + text_at(job, "name") + ") is created, with seed " + text_at(job, "seed") + "\n";
  if (!command.watch) {
    for (const Json &notice : value_at(job, "notices")) text += "note: " + text_at(notice, "") + "\n";
    text += "watch it: parsyn-job watch " + id + "\n";
  }
  print_document(options, job, text);
  return command.watch ? watch_job(client, options, whole_at(job, "id")) : 0;
}

int end_job(RestClient &client, const ClientOptions &options, const End &command) {
  const Json job =
      client.post(path_of(Resource::job, command.id) + (command.at_once ? "/cancel" : "/stop"), "");
  const std::string id = text_at(job, "id");
  const bool later = true_at(job, "stopping") && text_at(job, "state") != "stopped";
  print_document(options, job,
                 "job " + id +
                     (later ? " stops after its current round"
                            : " is " + text_at(job, "state") + ": " + text_at(job, "reason")) +
                     "\n");
  return 0;
}

}  // namespace parsyn::programs
