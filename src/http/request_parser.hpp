// Bytes into a request: the one place that knows the parser library, so that another could take its place.
//
// Also what the library lets pass and RFC 9112 forbids: any Transfer-Encoding but exactly "chunked", one in
// HTTP/1.0, one beside Content-Length, repeated headers that decide what the request is, a header of endless
// small fields, endless chunk extensions and trailers. Trailers are read over and never become headers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_client.hpp"

namespace parsyn::http {

struct RequestHead {
  std::string method;
  std::string target;
  bool http_1_0 = false;
  Headers headers;  ///< A list header that came in several lines is joined with ", ".
  bool chunked = false;
  std::uint64_t content_length = 0;
  bool keep_alive = false;

  bool has_body() const { return chunked || content_length > 0; }
};

struct Refusal {
  int status = 400;
  std::string detail;
};

/// Parses one request. Single-threaded.
class RequestParser {
 public:
  explicit RequestParser(std::uint64_t header_bytes_max);
  ~RequestParser();
  RequestParser(const RequestParser &) = delete;
  RequestParser &operator=(const RequestParser &) = delete;

  /// Takes what it can from the front of `bytes`, appends what is body to `body`, and returns how many bytes
  /// it took. The rest must be shown again, followed by what came after it. Stops behind the head, and behind
  /// the request.
  std::size_t put(std::string_view bytes, std::string &body);

  bool head_done() const;
  bool done() const;
  const std::optional<Refusal> &refusal() const;
  /// Only once head_done().
  const RequestHead &head() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace parsyn::http
