// worker add and remove, dataset add, model add.
#include <filesystem>

#include "common/number_text.hpp"
#include "common/token_file.hpp"
#include "core/counted.hpp"
#include "job/commands.hpp"
#include "job/printing.hpp"
#include "parsyn/error.hpp"
#include "text/encoding.hpp"

namespace parsyn::programs {
namespace {

std::string absolute(const std::string &path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// "'" would end a quoted word of a shell.
std::string shell_word(const std::string &text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=-[]";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

Json file_document(const DatasetAdd &command, const std::string &path, const std::string &labels) {
  Json file{{"path", absolute(path)}};
  if (!labels.empty()) file["labels_path"] = absolute(labels);
  if (!command.format.empty()) file["format"] = command.format;
  if (!command.label_column.empty()) file["label_column"] = command.label_column;
  return file;
}

}  // namespace

int add_worker(RestClient &client, const ClientOptions &options, const WorkerAdd &command) {
  const bool to_file = !command.token_file.empty();
  if (to_file) check_token_file_is_new(command.token_file);
  Json worker =
      client.post(path_of(Resource::worker), Json{{"name", command.name}, {"kind", command.kind}}.dump());
  const std::string token = text_at(worker, "token");
  const std::string id = text_at(worker, "id");
  std::string text = "worker " + id + " (" + text_at(worker, "name") + ") is registered\n";
  std::string file = "FILE";
  if (to_file) {
    try {
      write_token_file(command.token_file, token);
    } catch (const Error &error) {
      throw Error(error.code(), error.message() + "; worker " + id +
                                    " is registered and its token is lost: parsyn-job worker remove " + id +
                                    ", then add it again");
    }
    worker.erase("token");
    file = absolute(command.token_file.string());
    worker["token_file"] = file;
    text += "its token is in " + file + "\n";
  } else {
    text += "its token, told this once: " + token + "\n";
  }
  text += "start it: parsyn-worker --coordinator " + shell_word(client.base()) + " --token-file " +
          (to_file ? shell_word(file) : file) + "\n";
  print_document(options, worker, text);
  return 0;
}

int remove_worker(RestClient &client, const ClientOptions &options, const WorkerRemove &command) {
  client.remove(path_of(Resource::worker, command.id));
  print_document(options, {{"id", command.id}, {"removed", true}},
                 "worker " + std::to_string(command.id) + " is removed; its token is void\n");
  return 0;
}

Json dataset_document(const DatasetAdd &command) {
  Json document{{"name", command.name}, {"local", command.local}};
  if (!command.train.empty()) document["train"] = file_document(command, command.train, command.train_labels);
  if (!command.validation.empty())
    document["validation"] = file_document(command, command.validation, command.validation_labels);
  if (command.validation_fraction) document["validation_fraction"] = *command.validation_fraction;
  if (command.split_seed) document["split_seed"] = *command.split_seed;
  return document;
}

int add_dataset(RestClient &client, const ClientOptions &options, const DatasetAdd &command) {
  const Json dataset = client.post(path_of(Resource::dataset), dataset_document(command).dump());
  const std::string train = true_at(dataset, "local")
                                ? "local training examples"
                                : core::counted(whole_at(dataset, "train.num_examples"), "training example");
  const std::string validation = text_at(dataset, "validation.num_examples");
  print_document(options, dataset,
                 "dataset " + text_at(dataset, "id") + " (" + text_at(dataset, "name") + ") is registered: " +
                     train + ", " + (validation == "-" ? "none" : validation) + " for validation\n");
  return 0;
}

Json model_document(const ModelAdd &command) {
  Json document{{"name", command.name}};
  if (!command.kind.empty()) document["kind"] = command.kind;
  if (!command.sizes.empty()) document["sizes"] = command.sizes;
  if (!command.activation.empty()) document["activation"] = command.activation;
  if (!command.loss.empty()) document["loss"] = command.loss;
  if (!command.path.empty()) document["path"] = absolute(command.path);
  if (command.from_job.empty()) return document;
  if (const std::string fault = job_and_round_fault(command.from_job); !fault.empty())
    throw Error(ErrorCode::invalid_argument, "--from-job: " + fault);
  const std::size_t colon = command.from_job.find(':');
  const std::string round = colon == std::string::npos ? "" : command.from_job.substr(colon + 1);
  const auto number = text::parse_u64(round);
  document["from_job"] = text::parse_u64(command.from_job.substr(0, colon)).value();
  if (number) document["from_round"] = *number;
  if (round == "best") document["from_round"] = round;
  return document;
}

int add_model(RestClient &client, const ClientOptions &options, const ModelAdd &command) {
  const Json model = client.post(path_of(Resource::model), model_document(command).dump());
  print_document(options, model,
                 "model " + text_at(model, "id") + " (" + text_at(model, "name") +
                     ") is registered: " + text_at(model, "kind") + ", " +
                     core::counted(whole_at(model, "num_parameters"), "parameter") + "\n");
  return 0;
}

}  // namespace parsyn::programs
