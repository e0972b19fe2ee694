// Servers, routes and bodies that the tests of HTTP share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "parsyn/bytes.hpp"

namespace parsyn::test {

using Handler = std::function<void(http::HttpRequest, http::Responder)>;

/// A route without an accept, whose body comes in memory.
inline http::Route route(std::string method, std::string pattern, Handler handler) {
  return {std::move(method),
          std::move(pattern),
          {},
          [handler = std::move(handler)](http::HttpRequest request, std::shared_ptr<ByteSink>,
                                         http::Responder respond) {
            handler(std::move(request), std::move(respond));
          }};
}

inline http::HttpResponse text_response(std::string text, int status = 200) {
  http::HttpResponse response;
  response.status = status;
  response.headers["Content-Type"] = "text/plain";
  response.body = std::move(text);
  return response;
}

/// "GET /ping" answers "pong".
inline http::Route ping_route() {
  return route("GET", "/ping", [](const http::HttpRequest &, const http::Responder &respond) {
    respond.send(text_response("pong"));
  });
}

/// Bytes in which no two places look alike.
inline std::string pattern_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = 88172645463325252ULL;
  for (std::size_t i = 0; i < size; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    for (std::size_t j = i; j < size && j < i + 8; ++j) bytes[j] = static_cast<char>(state >> (8 * (j - i)));
  }
  return bytes;
}

/// A source that owns its bytes.
class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const override { return text_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    const auto bytes = std::as_bytes(std::span(text_.data(), text_.size())).subspan(offset, out.size());
    std::copy(bytes.begin(), bytes.end(), out.begin());
  }

 private:
  const std::string text_;
};

/// "GET /object" answers `text` from a source, under `etag`.
inline http::Route object_route(const std::string &text, const std::string &etag) {
  const auto source = std::make_shared<TextSource>(text);
  return route("GET", "/object", [source, etag](const http::HttpRequest &, const http::Responder &respond) {
    http::HttpResponse response;
    response.source = source;
    response.etag = etag;
    respond.send(std::move(response));
  });
}

inline http::HttpClientRequest get(const std::string &url) {
  http::HttpClientRequest request;
  request.url = url;
  return request;
}

inline http::HttpClientRequest put(const std::string &url, std::string body, std::string method = "PUT") {
  http::HttpClientRequest request;
  request.method = std::move(method);
  request.url = url;
  request.body = std::move(body);
  return request;
}

/// Time limits short enough for a test that waits for them.
inline http::HttpClientOptions impatient_client() {
  http::HttpClientOptions options;
  options.connect_timeout = std::chrono::milliseconds(300);
  options.idle_timeout = std::chrono::milliseconds(300);
  return options;
}

/// How much longer than otherwise things may take under a sanitizer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowness = 5;
#else
inline constexpr int kSlowness = 1;
#endif

class Stopwatch {
 public:
  std::chrono::milliseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace parsyn::test
