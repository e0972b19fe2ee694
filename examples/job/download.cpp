#include "job/download.hpp"

#include <chrono>
#include <system_error>
#include <thread>

#include "common/program.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "text/encoding.hpp"

namespace parsyn::programs {
namespace {

constexpr int kTriesWithoutProgressMax = 5;
constexpr std::chrono::seconds kPause{1};
constexpr std::size_t kNamedDigits = 16;

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

}  // namespace

Downloaded download_model(RestClient &client, const Download &command) {
  const std::string query = command.round.empty() ? "" : "?round=" + text::percent_encode(command.round);
  const std::string path = path_of(Resource::job, command.id) + "/model" + query;

  // Known before the first byte, so that a file of another object is never gone on with.
  const http::HttpClientResponse head = ask_for_head(client, path);
  const std::string sha256 = header(head, "X-Content-SHA256");
  const auto bytes = text::parse_u64(header(head, "Content-Length"));
  if (sha256.size() < kNamedDigits || sha256.find_first_not_of("0123456789abcdef") != std::string::npos ||
      !bytes) {
    throw Error(ErrorCode::protocol, "the coordinator's answer does not tell the model's size and digest");
  }

  std::filesystem::path file = command.output;
  if (file.empty()) file = "job-" + std::to_string(command.id) + ".safetensors";
  std::filesystem::path part = file;
  part += ".";
  part += sha256.substr(0, kNamedDigits);
  part += ".part";
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
  std::error_code failed;
  std::filesystem::rename(part, file, failed);
  if (failed)
    throw Error(ErrorCode::io,
                "cannot rename " + part.string() + " to " + file.string() + ": " + failed.message());
  return {file, *bytes, sha256};
}

}  // namespace parsyn::programs
