// Problem documents (RFC 9457). Their JSON is five fields of text, so a function that escapes text is all it
// takes.
#include <array>

#include "http/http_server.hpp"
#include "http/response_head.hpp"
#include "text/utf8.hpp"

namespace parsyn::http {
namespace {

constexpr std::size_t kDetailBytesMax = 64 << 10;

std::string json_text(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text::is_utf8(text) ? std::string(text) : text::printable(text, kDetailBytesMax)) {
    const auto value = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (value < 0x20) {
      json += "\\u00";
      json += kDigits[value >> 4];
      json += kDigits[value & 15];
    } else {
      json += c;
    }
  }
  return json + "\"";
}

HttpResponse document(int status, std::string_view code, std::string_view detail,
                      const std::vector<Fault> &faults) {
  HttpResponse response;
  response.status = status;
  response.headers["Content-Type"] = "application/problem+json";
  response.headers["Cache-Control"] = "no-store";
  std::string errors;
  for (const auto &fault : faults) {
    errors += (errors.empty() ? "{\"field\":" : ",{\"field\":") + json_text(fault.field) +
              ",\"code\":" + json_text(fault.code) + ",\"message\":" + json_text(fault.message) + "}";
  }
  response.body = "{\"type\":\"about:blank\",\"title\":" + json_text(reason_phrase(status)) +
                  ",\"status\":" + std::to_string(status) + ",\"code\":" + json_text(code) +
                  ",\"detail\":" + json_text(detail) + ",\"errors\":[" + errors + "]}";
  return response;
}

}  // namespace

int http_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::ok:
      return 200;
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::conflict:
      return 409;
    case ErrorCode::unauthorized:
      return 401;
    case ErrorCode::forbidden:
      return 403;
    case ErrorCode::too_large:
      return 413;
    case ErrorCode::timeout:
      return 504;
    case ErrorCode::cancelled:
      return 503;
    case ErrorCode::unavailable:
      return 503;
    case ErrorCode::corrupt_data:
      return 422;
    case ErrorCode::io:
      return 507;
    case ErrorCode::unsupported:
      return 422;
    case ErrorCode::protocol:
      return 400;
    case ErrorCode::internal:
      return 500;
  }
  return 500;
}

HttpResponse problem_response(const Error &error) {
  HttpResponse response =
      document(http_status_of(error.code()), error_code_name(error.code()), error.message(), error.faults());
  // RFC 9110, 15.5.2: a 401 names the scheme that is asked for.
  if (response.status == 401) response.headers["WWW-Authenticate"] = "Bearer";
  return response;
}

HttpResponse problem_response(int status, std::string_view code, std::string_view detail) {
  return document(status, code, detail, {});
}

}  // namespace parsyn::http
