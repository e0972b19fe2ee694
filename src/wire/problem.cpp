#include "wire/problem.hpp"

#include <optional>
#include <string>

#include "parsyn/limits.hpp"
#include "text/utf8.hpp"
#include "wire/json_reader.hpp"

namespace parsyn::wire {
namespace {

using nlohmann::json;

ErrorCode code_of_status(int status) {
  switch (status) {
    case 400:
      return ErrorCode::invalid_argument;
    case 401:
      return ErrorCode::unauthorized;
    case 403:
      return ErrorCode::forbidden;
    case 404:
      return ErrorCode::not_found;
    case 409:
      return ErrorCode::conflict;
    case 413:
      return ErrorCode::too_large;
    case 429:
      return ErrorCode::unavailable;
    default:
      // In words of another server: most likely one in between, whose trouble passes.
      return status >= 500 ? ErrorCode::unavailable : ErrorCode::protocol;
  }
}

std::optional<ErrorCode> code_of_name(std::string_view name) {
  for (auto code = ErrorCode::invalid_argument; code <= ErrorCode::internal;
       code = static_cast<ErrorCode>(static_cast<std::int32_t>(code) + 1)) {
    if (error_code_name(code) == name) return code;
  }
  return std::nullopt;
}

std::string text_of(const json &object, const char *name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return {};
  return text::printable(found->get_ref<const std::string &>(), limits::kReasonBytesMax);
}

std::vector<Fault> faults_of(const json &problem) {
  const auto list = problem.find("errors");
  if (list == problem.end() || !list->is_array()) return {};
  std::vector<Fault> faults;
  for (const json &entry : *list) {
    if (faults.size() > kFaultsMax) break;
    if (entry.is_object())
      faults.push_back({text_of(entry, "field"), text_of(entry, "code"), text_of(entry, "message")});
  }
  return faults;
}

}  // namespace

Error error_from_problem(int status, std::string_view body) {
  FaultList unreadable;
  const std::optional<json> problem = read_json(body, unreadable);
  const std::string answered = "the server answered with HTTP status " + std::to_string(status);
  if (!problem || !problem->is_object()) return Error(code_of_status(status), answered);

  const ErrorCode code = code_of_name(text_of(*problem, "code")).value_or(code_of_status(status));
  std::string message = text_of(*problem, "detail");
  if (message.empty()) message = text_of(*problem, "title");
  if (message.empty()) message = answered;
  return Error(code, std::move(message), faults_of(*problem));
}

}  // namespace parsyn::wire
