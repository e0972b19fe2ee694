#include "job/rest_client.hpp"

#include "common/program.hpp"
#include "common/token_file.hpp"
#include "parsyn/error.hpp"
#include "transport/client_options.hpp"
#include "transport/loopback.hpp"
#include "wire/problem.hpp"

namespace parsyn::programs {
namespace {

/// A job with very many rounds is long.
constexpr std::uint64_t kAnswerBytesMax = 1ULL << 30;
constexpr int kPageSize = 500;

std::string read_token(const ClientOptions &options) {
  if (options.token_file.empty()) {
    throw WrongUsage(
        "the operator's token is needed: give --token-file STATE/operator.token, or set PARSYN_TOKEN_FILE");
  }
  return read_token_file(options.token_file,
                         [](const std::string &text) { print_message("parsyn-job", "warning: " + text); });
}

}  // namespace

std::string path_of(Resource resource) {
  switch (resource) {
    case Resource::job:
      return "/api/v1/training-jobs";
    case Resource::worker:
      return "/api/v1/workers";
    case Resource::dataset:
      return "/api/v1/datasets";
    case Resource::model:
      return "/api/v1/models";
  }
  return {};
}

std::string path_of(Resource resource, std::uint64_t id) {
  return path_of(resource) + "/" + std::to_string(id);
}

RestClient::RestClient(const ClientOptions &options)
    : base_(transport::checked_base_url(options.connection.url, options.connection.allow_plain_http)),
      token_(read_token(options)),
      client_(transport::client_options(options.connection)) {}

http::HttpClientRequest RestClient::request(const std::string &method, const std::string &path) const {
  http::HttpClientRequest request;
  request.method = method;
  request.url = base_ + path;
  request.headers["Authorization"] = "Bearer " + token_;
  request.response_bytes_max = kAnswerBytesMax;
  return request;
}

http::HttpClientResponse RestClient::perform(const http::HttpClientRequest &request) {
  const auto answer_of = [&] {
    try {
      return client_.perform(request);
    } catch (const Error &error) {
      if (error.code() != ErrorCode::unavailable) throw;
      throw Error(error.code(), error.message() + "; is parsyn-coordinator running there? (--coordinator)");
    }
  };
  const http::HttpClientResponse response = answer_of();
  if (response.status / 100 == 2) return response;
  const Error error = wire::error_from_problem(response.status, response.body);
  if (error.code() == ErrorCode::unauthorized) {
    throw Error(error.code(), error.message() + " (--token-file, or PARSYN_TOKEN_FILE)", error.faults());
  }
  throw error;
}

Json RestClient::get(const std::string &path) {
  const std::string body = perform(request("GET", path)).body;
  Json document = Json::parse(body, nullptr, false);
  if (document.is_discarded())
    throw Error(ErrorCode::protocol, "GET " + base_ + path + " answered something else than JSON");
  return document;
}

Json RestClient::post(const std::string &path, std::string body, const std::string &idempotency_key) {
  http::HttpClientRequest post = request("POST", path);
  post.headers["Content-Type"] = "application/json";
  if (!idempotency_key.empty()) post.headers["Idempotency-Key"] = idempotency_key;
  post.body = std::move(body);
  Json document = Json::parse(perform(post).body, nullptr, false);
  if (document.is_discarded())
    throw Error(ErrorCode::protocol, "POST " + base_ + path + " answered something else than JSON");
  return document;
}

void RestClient::remove(const std::string &path) { perform(request("DELETE", path)); }

std::vector<Json> RestClient::list(const std::string &path) {
  std::vector<Json> items;
  std::string after = "0";
  for (;;) {
    const Json page = get(path + "?limit=" + std::to_string(kPageSize) + "&after=" + after);
    for (const Json &item : page.at("items")) items.push_back(item);
    const Json &next = page.at("next");
    if (!next.is_number_unsigned()) return items;
    after = std::to_string(next.get<std::uint64_t>());
  }
}

}  // namespace parsyn::programs
