// One accepted connection: requests in, answers out, one at a time, until either side ends it.
//
// All private members are used on the connection's strand only; work that may block runs on the server's pool
// and comes back by a message to the strand. Bytes are read at any time when they have a place to go: while a
// handler thinks, one read stays outstanding, which is how a peer that goes away is noticed.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/answer_plan.hpp"
#include "http/exchange.hpp"
#include "http/http_server.hpp"
#include "http/request_parser.hpp"
#include "http/response_head.hpp"
#include "http/server_core.hpp"
#include "http/server_stream.hpp"
#include "system/sha256.hpp"

namespace parsyn::http {

class ServerConnection final : public AnswerChannel, public std::enable_shared_from_this<ServerConnection> {
 public:
  /// `overloaded`: answers the first request with 503 and closes.
  ServerConnection(std::shared_ptr<ServerCore> core, ServerStream::Socket socket,
                   boost::asio::ssl::context *tls, bool overloaded);

  /// Any thread.
  void start();
  /// Any thread. An answer in memory that is being sent gets `patience` to end; everything else ends now.
  void stop(std::chrono::milliseconds patience);

  void queue_answer(std::shared_ptr<Exchange> exchange, HttpResponse response) override;
  void queue_stream(std::shared_ptr<Exchange> exchange, int status, Headers headers) override;
  void queue_piece(std::shared_ptr<Exchange> exchange, std::string piece) override;
  void queue_end(std::shared_ptr<Exchange> exchange) override;
  void queue_abort(std::shared_ptr<Exchange> exchange) override;

 private:
  enum class Phase {
    handshake,
    idle,       // between requests: no byte of the next one is here
    header,     // some are
    deciding,   // the route's accept looks at the header; nothing is read
    body,       // into memory or the sink
    handling,   // the handler has the request
    answering,  // an answer of known length goes out
    streaming,  // one without an end
    draining,   // the last answer is out, and the peer gets a moment to read it
    closed,
  };

  /// The body on its way to a sink. Shared with the pool's task, which is the only one to use sink and
  /// digest.
  struct SinkState {
    std::shared_ptr<ByteSink> sink;
    system::Sha256 digest;
    std::string rest;  // of a body that was cut: what had come and was not written yet
  };

  struct Piece {
    std::string bytes;
    std::uint64_t counted = 0;  // of them, the exchange's queued bytes
  };

  // Turns (below)
  template <typename Turn>
  void take_turn(Turn &&turn) noexcept;
  template <typename Turn>
  void post_turn(Turn turn);
  template <typename Work>
  bool post_work(Work work);

  // Time (server_connection.cpp)
  void arm(std::chrono::milliseconds from_now);
  void disarm();
  void wait_for_deadline();
  void on_timer();
  void on_deadline();

  // Reading (server_connection.cpp)
  void on_handshake(const boost::system::error_code &error);
  void begin_request();
  void read();
  void on_read(const boost::system::error_code &error, std::size_t bytes);
  void received(std::string_view bytes);
  void take_head(std::string_view bytes);
  void take_body(std::string_view bytes);

  // Deciding and handling (server_connection.cpp)
  void on_head();
  void decide();
  void on_decided(HttpRequest request, BodyPlan plan);
  void advance_body();
  /// Whether the body has come too slowly for too long.
  bool body_is_too_slow() const;
  void write_to_sink();
  void on_sink_written(std::shared_ptr<SinkState> sink, std::optional<HttpResponse> failure,
                       std::string buffer);
  void handle();
  void refuse(HttpResponse response);
  /// No more of the body comes: its sink gets what has come, and is released.
  void cut_sink();
  void finish_cut(std::shared_ptr<SinkState> sink) const;

  // Answering (server_answer.cpp)
  void begin_answer(HttpResponse response);
  void begin_stream(int status, Headers headers);
  void push(std::string bytes, std::uint64_t counted = 0);
  void write_next();
  void on_written(const boost::system::error_code &error, std::size_t bytes);
  void on_queue_empty();
  void fetch();
  void on_fetched(std::optional<std::string> piece);
  void on_answered();
  void close_gently();
  void arm_drain();
  void shut_tls_down();
  void close() noexcept;

  bool is_current(const std::shared_ptr<Exchange> &exchange) const;
  std::shared_ptr<Exchange> new_exchange();
  HandlerPool pool() const { return route_ ? route_->pool : HandlerPool::general; }
  /// Files are closed, and unfinished ones removed, off the I/O threads.
  void release(std::shared_ptr<const void> last_reference) const;

  const std::shared_ptr<ServerCore> core_;
  ServerStream stream_;
  const boost::asio::any_io_executor executor_;  // the strand
  const bool overloaded_;
  std::string peer_;
  Phase phase_ = Phase::handshake;
  bool first_request_ = true;

  boost::asio::steady_timer timer_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point timer_at_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point last_progress_;  // of what is being written
  int unacknowledged_ = 0;                               // at the last look

  std::vector<char> read_buffer_;
  bool reading_ = false;
  std::string input_;  // bytes that came and are not parsed yet
  std::optional<RequestParser> parser_;
  bool peer_has_finished_ = false;  // its sending side is closed; it may still read
  std::uint64_t drained_bytes_ = 0;
  std::chrono::steady_clock::time_point drain_until_;

  HttpRequest request_;
  HttpRequest asked_;  // of it, what the answer's form depends on
  const Route *route_ = nullptr;
  std::uint64_t body_bytes_max_ = 0;
  std::chrono::steady_clock::duration body_waited_{};  // for bytes, not for the sink
  std::chrono::steady_clock::time_point body_read_began_;
  std::shared_ptr<SinkState> sink_;
  std::string piece_;        // of the body, on its way to the sink
  std::string spare_piece_;  // its buffer, for the next one
  bool sink_busy_ = false;
  std::shared_ptr<Exchange> exchange_;

  std::deque<Piece> output_;
  std::size_t written_of_front_ = 0;
  bool writing_ = false;
  bool stream_ended_ = false;
  bool stream_chunked_ = false;
  bool keep_alive_ = false;
  bool stopping_ = false;
  bool shutting_tls_down_ = false;
  std::shared_ptr<const ByteSource> source_;
  std::uint64_t source_at_ = 0;
  std::uint64_t source_left_ = 0;
  bool fetching_ = false;
  std::string spare_fetch_;
};

/// Whatever runs on the strand runs in here: what it throws, most likely for want of memory, ends this
/// connection, and neither the others nor the process.
template <typename Turn>
void ServerConnection::take_turn(Turn &&turn) noexcept {
  try {
    turn();
  } catch (...) {
    core_->log_exception("http.connection_failed", peer_);
    close();
  }
}

template <typename Turn>
void ServerConnection::post_turn(Turn turn) {
  boost::asio::post(executor_, [self = shared_from_this(), turn = std::move(turn)]() mutable {
    self->take_turn(std::move(turn));
  });
}

/// On the route's pool. False, and nothing is run, once the server has stopped.
template <typename Work>
bool ServerConnection::post_work(Work work) {
  return core_->post(pool(), [self = shared_from_this(), work = std::move(work)]() mutable {
    try {
      work();
    } catch (...) {
      self->core_->log_exception("http.connection_failed", self->peer_);
      self->stop(std::chrono::milliseconds(0));
    }
  });
}

}  // namespace parsyn::http
