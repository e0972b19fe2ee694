#include "job/download.hpp"

#include <chrono>
#include <system_error>
#include <thread>

#include "common/program.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "text/encoding.hpp"
#include "transport/paths.hpp"

namespace parsyn::programs {
namespace {

constexpr int kTriesWithoutProgressMax = 5;
constexpr std::chrono::seconds kPause{1};
constexpr std::size_t kNamedDigits = 16;
/// As the kernel.
constexpr int kLinksMax = 40;

std::uint64_t size_of(const std::filesystem::path &file) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(file, missing);
  return missing ? 0 : static_cast<std::uint64_t>(size);
}

std::string header(const http::HttpClientResponse &response, const std::string &name) {
  std::string value = response.header(name);
  if (value.empty()) throw Error(ErrorCode::protocol, "the coordinator's answer has no header " + name);
  return value;
}

/// What a GET would say of the object. A refusal of HEAD has no body: a GET of one byte brings its reason.
http::HttpClientResponse ask_for_head(RestClient &client, const std::string &path) {
  try {
    return client.perform(client.request("HEAD", path));
  } catch (const Error &error) {
    if (error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout) throw;
    http::HttpClientRequest first_byte = client.request("GET", path);
    first_byte.headers["Range"] = "bytes=0-0";
    client.perform(first_byte);
    throw;
  }
}

void check_regular(const std::filesystem::path &file) {
  std::error_code failed;
  const auto type = std::filesystem::status(file, failed).type();
  if (type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular) return;
  if (type == std::filesystem::file_type::directory)
    throw WrongUsage("--output: " + file.string() + " is a folder: name a file for the model");
  if (failed) throw Error(ErrorCode::io, "cannot look at " + file.string() + ": " + failed.message());
  throw WrongUsage("--output: " + file.string() + " is not a regular file: name another one for the model");
}

/// The file that writing to `output` means. A rename would put a model in the place of a link, a device or a
/// pipe.
std::filesystem::path written_file(const std::filesystem::path &output) {
  std::filesystem::path file = output;
  std::error_code failed;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(file, failed)); ++links) {
    if (links == kLinksMax)
      throw WrongUsage("--output: " + output.string() + " leads through too many symbolic links");
    // An absolute one takes the whole path's place.
    file = file.parent_path() / std::filesystem::read_symlink(file);
  }
  check_regular(file);
  return file;
}

/// Beside the file, and of this object alone.
std::filesystem::path part_of(const std::filesystem::path &file, const std::string &sha256) {
  std::filesystem::path part = file;
  part += ".";
  part += sha256.substr(0, kNamedDigits);
  part += ".part";
  std::error_code failed;
  const auto type = std::filesystem::symlink_status(part, failed).type();
  if (type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::regular && !failed)
    throw Error(ErrorCode::conflict, part.string() + " is in the way: it is not a regular file");
  return part;
}

Error is_there(const std::filesystem::path &file) {
  return Error(ErrorCode::conflict,
               file.string() + " is there already: give --force to replace it, or name another --output");
}

/// Gives the finished file its name.
void put_in_place(const std::filesystem::path &part, const std::filesystem::path &file, bool force) {
  if (!force) {
    // Looked for again, as it may have come meanwhile.
    if (system::posix_file_system().rename_new(part, file)) return;
    if (std::filesystem::exists(part)) throw is_there(file);
    throw Error(ErrorCode::io, part.string() + " is gone: somebody has removed it while it was written");
  }
  std::error_code failed;
  std::filesystem::rename(part, file, failed);
  if (failed)
    throw Error(ErrorCode::io,
                "cannot rename " + part.string() + " to " + file.string() + ": " + failed.message());
}

}  // namespace

Downloaded download_model(RestClient &client, const Download &command) {
  const std::filesystem::path named =
      command.output.empty() ? std::filesystem::path("job-" + std::to_string(command.id) + ".safetensors")
                             : command.output;
  const std::filesystem::path file = written_file(named);
  if (!command.force && std::filesystem::exists(file)) throw is_there(file);
  const std::string model_path = path_of(Resource::job, command.id) + "/model";
  const std::string query = command.round.empty() ? "" : "?round=" + text::percent_encode(command.round);

  // Known before the first byte, so that a file of another object is never gone on with.
  const http::HttpClientResponse head = ask_for_head(client, model_path + query);
  const std::string sha256 = header(head, "X-Content-SHA256");
  const auto bytes = text::parse_u64(header(head, "Content-Length"));
  const auto round = text::parse_u64(header(head, transport::kModelRound));
  if (sha256.size() < kNamedDigits || sha256.find_first_not_of("0123456789abcdef") != std::string::npos ||
      !bytes || !round) {
    throw Error(ErrorCode::protocol,
                "the coordinator's answer does not tell the model's round, size and digest");
  }
  // The last model, and the best one, are others when the next round completes.
  const std::string path = model_path + "?round=" + std::to_string(*round);

  const std::filesystem::path part = part_of(file, sha256);
  if (size_of(part) > *bytes) std::filesystem::remove(part);

  int tries_left = kTriesWithoutProgressMax;
  while (size_of(part) < *bytes) {
    const std::uint64_t there = size_of(part);
    http::HttpClientRequest request = client.request("GET", path);
    request.output_file = part;
    request.output_offset = there;
    request.output_bytes_max = *bytes;
    if (there > 0) request.headers["If-Range"] = header(head, "ETag");
    try {
      client.perform(request);
    } catch (const Error &error) {
      const bool transient = error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout;
      if (size_of(part) > there) tries_left = kTriesWithoutProgressMax;
      if (!transient || --tries_left == 0) throw;
      print_message("parsyn-job", error.message() + "; going on from byte " + std::to_string(size_of(part)));
      std::this_thread::sleep_for(kPause);
    }
  }

  const std::string found = system::sha256_hex(system::FileSource(part));
  if (found != sha256) {
    std::filesystem::remove(part);
    throw Error(ErrorCode::corrupt_data, "the downloaded model has SHA-256 " + found +
                                             ", the coordinator says " + sha256 + ": try again");
  }
  put_in_place(part, file, command.force);
  // Where the last model is wanted and it is the initial one, there is no other.
  return {named, *bytes, sha256, *round, *round == 0 && command.round.empty()};
}

std::string round_text(const Downloaded &model) {
  if (model.round > 0) return std::to_string(model.round);
  return std::string("0, the initial model") + (model.is_untrained ? ": no round has completed" : "");
}

}  // namespace parsyn::programs
