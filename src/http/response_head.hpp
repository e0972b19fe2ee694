// The text that stands before a response's body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_client.hpp"

namespace parsyn::http {

/// "Not Found"; of a status without a registered phrase, its class's.
std::string_view reason_phrase(int status);

enum class BodyFraming {
  none,     ///< No body and no length: 204, 304.
  length,   ///< Content-Length: `length`.
  chunked,  ///< Transfer-Encoding: chunked.
  close,    ///< Ends with the connection: an endless body for a client of HTTP/1.0.
};

struct ResponseHead {
  int status = 200;
  Headers headers;  ///< Those that frame the body are ignored; control characters in values become spaces.
  BodyFraming framing = BodyFraming::length;
  std::uint64_t length = 0;
  bool close = false;  ///< Says that the connection is closed after this answer.
};

/// Status line, headers with Date, and the empty line.
std::string serialize(const ResponseHead &head);

/// A moment as RFC 9110, section 5.6.7 writes it: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(std::int64_t seconds_since_1970);

}  // namespace parsyn::http
