// submit, stop, cancel.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "job/commands.hpp"
#include "job/printing.hpp"
#include "job/watch.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "system/files.hpp"

namespace parsyn::programs {
namespace {

/// As many bytes as a document may have, from what has no size: a pipe, a terminal.
std::string read_stream(std::istream &in, const std::string &name) {
  constexpr std::size_t kBytesMax = limits::kHttpJsonBytesMax;
  std::string text(kBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad() || (!in.eof() && in.fail())) throw Error(ErrorCode::io, "cannot read " + name);
  if (text.size() > kBytesMax) {
    throw Error(ErrorCode::too_large, name + " has more than " + std::to_string(kBytesMax) +
                                          " bytes, which is the most that is read");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw Error(ErrorCode::invalid_argument, name + " has no job in it");
  return text;
}

}  // namespace

std::string read_document(const std::string &file) {
  if (file == "-") return read_stream(std::cin, "standard input");
  std::error_code unknown;
  const auto type = std::filesystem::status(file, unknown).type();
  const bool has_no_size = type == std::filesystem::file_type::fifo ||
                           type == std::filesystem::file_type::character ||
                           type == std::filesystem::file_type::socket;
  if (!has_no_size) return system::read_text_file(file, limits::kHttpJsonBytesMax);
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ErrorCode::io, "cannot open " + file + ": " + std::system_category().message(errno));
  return read_stream(in, file);
}

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
