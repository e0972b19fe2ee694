// What all routes share.
#include <algorithm>

#include "parsyn/error.hpp"
#include "text/utf8.hpp"
#include "transport/routes.hpp"

namespace parsyn::transport {
namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return text;
}

}  // namespace

std::string bearer_token(const HttpRequest &request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string value = request.header("Authorization");
  const auto same_letter = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  if (value.size() <= kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), value.begin(), same_letter)) {
    throw Error(ErrorCode::unauthorized, "a token is needed: send the header Authorization: Bearer TOKEN");
  }
  return value.substr(kScheme.size());
}

HttpResponse json_response(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers["Content-Type"] = "application/json";
  response.headers["Cache-Control"] = "no-store";
  response.body = std::move(body);
  return response;
}

BodyPlan plain_body(const HttpRequest &request) {
  BodyPlan plan;
  const std::string coding = lower_case(request.header("Content-Encoding"));
  if (coding.empty() || coding == "identity") return plan;
  plan.refuse = http::problem_response(415, "unsupported",
                                       "the body has the Content-Encoding " + text::printable(coding, 100) +
                                           "; send it as it is, without one");
  plan.refuse->headers["Accept-Encoding"] = "identity";
  return plan;
}

void expect_json(const HttpRequest &request) {
  std::string type = lower_case(request.header("Content-Type"));
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  if (type.empty() || type == "application/json" || type.ends_with("+json") ||
      type == "application/x-www-form-urlencoded")
    return;
  throw Error(ErrorCode::invalid_argument,
              "the body is sent as " + type + "; send JSON with Content-Type: application/json",
              {{"Content-Type", "type", "must be application/json"}});
}

std::vector<Route> health_routes(const Coordinator &coordinator) {
  const auto healthy = [](HttpRequest, std::shared_ptr<ByteSink>, Responder respond) {
    respond.send(json_response(200, "{\"status\":\"ok\"}"));
  };
  const auto ready = [&coordinator](HttpRequest, std::shared_ptr<ByteSink>, Responder respond) {
    const std::string failure = coordinator.failure();
    if (!failure.empty()) throw Error(ErrorCode::unavailable, failure);
    respond.send(json_response(200, "{\"status\":\"ready\"}"));
  };
  return {{"GET", "/healthz", {}, healthy}, {"GET", "/readyz", {}, ready}};
}

}  // namespace parsyn::transport
