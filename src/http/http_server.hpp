// An HTTP/1.1 server, plain or TLS, on Boost.Beast: the only listening socket of parsyn.
//
// A request is first shown to its route's `accept` with its headers only: there it is refused (401, 404, 413,
// 507) before its body is read, or told where the body goes. When the body is there, `handle` is called with
// a Responder, which may answer at once or later, from any thread (long polls, event streams). Neither runs
// on an I/O thread's time: handlers run on the server's own pool and may block on files.
//
// Every connection is bounded: header bytes, header time, body bytes, time without progress, a body's average
// rate, idle time, number of connections. What RFC 9112 forbids and Beast 1.81 lets pass is refused here: any
// Transfer-Encoding but exactly "chunked", one in HTTP/1.0, one together with Content-Length, endless chunk
// extensions and trailers.
//
// A peer that ends its sending side has gone, and its Responder learns of it at once. Only GET and HEAD allow
// that such a peer still waits to read: it gets an answer (not a stream) that comes within the idle time-out.
//
// Thread-safety: every method may be called from any thread. No state outside the object: two servers in a
// process are independent. No signal handler is set; a peer that goes away raises none. Nothing that a
// handler, a sink or a source throws ends the process: it is logged, and ends its request or, without an
// answer, its connection. Lifetime: stop() and the destructor return within limits::kStopBound, or when the
// last handler that runs has ended, whichever is later: a handler cannot be interrupted. Parked Responders
// are closed, and their later answers go nowhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/http_client.hpp"
#include "parsyn/bytes.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/log.hpp"

namespace parsyn::http {

struct HttpRequest {
  std::string method;
  std::string path;                     ///< Percent-decoded once, without the query. Always starts with '/'.
  std::vector<std::string> parameters;  ///< What the route's {placeholders} matched, in order.
  std::map<std::string, std::string>
      query;  ///< Decoded. A repeated name is refused with 400 before any handler.
  Headers headers;
  std::string body;  ///< Empty when the body went to a sink.
  std::uint64_t body_bytes = 0;
  std::string body_sha256;  ///< Only when the body went to a sink.
  std::string peer;         ///< "127.0.0.1:54321"

  std::string header(std::string_view name) const;  ///< Empty when absent.
};

struct HttpResponse {
  int status = 200;
  Headers headers;
  std::string body;
  /// Sent instead of `body`, with Range (one range, RFC 9110 section 14), ETag and If-Range, If-None-Match,
  /// If-Match honoured where `etag` is set; several ranges are answered whole. HEAD sends no body.
  std::shared_ptr<const ByteSource> source;
  std::string etag;  ///< With or without its quotes; sent as the ETag header.
};

/// Answers one request: once, from any thread. Cheap to copy. Destroying the last copy unanswered sends a
/// 500.
class Responder {
 public:
  /// After the first answer, or when the peer is gone, does nothing.
  void send(HttpResponse response) const;

  /// Starts a body without an end (Server-Sent Events, chunked). False when the peer is gone.
  bool start_stream(int status, Headers headers) const;
  /// Queues a piece. False when the peer is gone, or so slow that over `stream_queue_bytes_max` are waiting:
  /// the stream is then closed, and the peer may come again with Last-Event-ID.
  bool write(std::string piece) const;
  /// Whether a quarter of `stream_queue_bytes_max` is waiting: who has more to say should wait for on_room().
  bool is_full() const;
  /// `room` is called once, on the handler pool, as soon as the stream is not full, or over. One at a time: a
  /// later one takes its place.
  void on_room(std::function<void()> room) const;
  void end_stream() const;
  /// Whether nobody gets the answer any more: the peer has gone, or the server stops. For a handler that
  /// works long: on_done() may have to wait for it.
  bool is_gone() const;
  /// `gone` is called once, on the handler pool, when the peer goes away, the server stops, or the answer has
  /// been sent.
  void on_done(std::function<void()> gone) const;

  struct State;
  explicit Responder(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// What `accept` decides from the headers.
struct BodyPlan {
  std::optional<HttpResponse> refuse;  ///< Answered at once; the body is not read.
  std::uint64_t bytes_max =
      limits::kHttpJsonBytesMax;  ///< 413 over it: before the body, or, chunked, when passed.
  /// Where the body is streamed, with its SHA-256 computed on the way; null: into HttpRequest::body. An Error
  /// that the sink throws answers 507 (io) or 413 (too_large); std::bad_alloc 503. A body cut short is never
  /// handed to `handle`; the sink gets all that came of it.
  std::shared_ptr<ByteSink> sink;
};

/// Which of the server's two pools runs a route's functions and moves its bodies.
enum class HandlerPool {
  general,
  reserved,  ///< Never waits for what a route of the general pool does, such as reading a slow disk.
};

struct Route {
  std::string method;
  std::string pattern;  ///< "/api/v1/workers/{id}"; a last segment "{rest...}" matches several.
  std::function<BodyPlan(HttpRequest &)> accept;  ///< Empty: BodyPlan{}.
  /// `sink` is the plan's. What it throws: an Error becomes a problem document by its code, std::bad_alloc a
  /// 503, all else a 500.
  std::function<void(HttpRequest request, std::shared_ptr<ByteSink> sink, Responder respond)> handle;
  HandlerPool pool = HandlerPool::general;
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;                  ///< 0: any free one; see HttpServer::port().
  std::filesystem::path certificate_file;  ///< PEM chain; empty: plain HTTP.
  std::filesystem::path private_key_file;
  std::filesystem::path client_ca_file;  ///< Not empty: clients must show a certificate of this authority.
  unsigned io_threads = 1;
  unsigned handler_threads = 4;
  unsigned reserved_threads = 0;  ///< Of the reserved pool; at least 1 where a route names it.
  std::uint64_t header_bytes_max = limits::kHttpHeaderBytesMax;
  std::uint32_t connections_max = limits::kHttpConnectionsMax;  ///< Over it, new ones get 503 and are closed.
  std::uint64_t stream_queue_bytes_max = limits::kStreamQueueBytesMax;
  std::chrono::milliseconds header_timeout =
      limits::kHttpHeaderTimeout;  ///< TLS handshake; and all of a header, from its first byte.
  std::chrono::milliseconds idle_timeout =
      limits::kTransferIdleTimeout;  ///< Of a body or answer without progress.
  /// A body that is slower than this on average, in bytes a second of waiting for it, is cut with 408 once it
  /// has been waited for so long. There is no limit on the whole time of one that is faster.
  std::uint64_t body_rate_min = limits::kTransferRateMin;
  std::chrono::milliseconds body_rate_grace = limits::kTransferGrace;
  std::chrono::milliseconds keep_alive_timeout = limits::kHttpKeepAlive;  ///< Between two requests.
  LogSink log;
};

class HttpServer {
 public:
  /// Listens when it returns. Throws Error: unavailable (the address is taken, in words), invalid_argument
  /// (address, certificate). What no route matches gets a 404 or 405 problem document.
  HttpServer(const HttpServerOptions &options, std::vector<Route> routes);
  ~HttpServer();
  HttpServer(const HttpServer &) = delete;
  HttpServer &operator=(const HttpServer &) = delete;

  std::uint16_t port() const;
  /// "http://127.0.0.1:8080"
  std::string url() const;
  /// Idempotent. Takes as long as said above. Called by a handler, it only begins the stop: another
  /// thread's stop() or the destructor ends it, and a handler must not destroy its own server.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The status that a problem document of this code has: not_found 404, conflict 409, ... timeout is 504: it
/// is a peer of the server's that made no progress. A client that makes none gets 408 from the server itself.
int http_status_of(ErrorCode code);
/// An RFC 9457 problem document (application/problem+json) with `code` and `errors`.
HttpResponse problem_response(const Error &error);
HttpResponse problem_response(int status, std::string_view code, std::string_view detail);

}  // namespace parsyn::http
