// What is sent for an answer once the request's conditions and range are looked at (RFC 9110, sections 13 and
// 14).
#pragma once

#include <cstdint>

#include "http/http_server.hpp"

namespace parsyn::http {

struct AnswerPlan {
  HttpResponse response;    ///< Status, headers, and body or source as they are sent.
  std::uint64_t first = 0;  ///< Of a source: the part that is sent.
  std::uint64_t length = 0;
};

/// Conditions change a 200 only, and ranges only one with a source.
AnswerPlan plan_answer(const HttpRequest &request, HttpResponse response);

}  // namespace parsyn::http
