// The half of a connection that sends: answers in memory, from a source, and streams.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <utility>

#include "http/server_connection.hpp"

namespace parsyn::http {
namespace {

constexpr std::size_t kFetchBytes = 256 << 10;
/// A body up to this size goes out in one write with its head.
constexpr std::size_t kSmallBodyBytes = 64 << 10;

std::string as_chunk(const std::string &piece) {
  std::array<char, 16> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), piece.size(), 16).ptr;
  std::string chunk(size.data(), end);
  chunk.reserve(chunk.size() + piece.size() + 4);
  chunk += "\r\n";
  chunk += piece;
  chunk += "\r\n";
  return chunk;
}

bool may_have_body(int status) { return status != 204 && status != 304; }

}  // namespace

bool ServerConnection::is_current(const std::shared_ptr<Exchange> &exchange) const {
  return phase_ != Phase::closed && exchange_ == exchange;
}

void ServerConnection::queue_answer(std::shared_ptr<Exchange> exchange, HttpResponse response) {
  post_turn([this, exchange = std::move(exchange), response = std::move(response)]() mutable {
    if (is_current(exchange)) begin_answer(std::move(response));
  });
}

void ServerConnection::queue_stream(std::shared_ptr<Exchange> exchange, int status, Headers headers) {
  post_turn([this, exchange = std::move(exchange), status, headers = std::move(headers)]() mutable {
    if (is_current(exchange)) begin_stream(status, std::move(headers));
  });
}

void ServerConnection::queue_piece(std::shared_ptr<Exchange> exchange, std::string piece) {
  post_turn([this, exchange = std::move(exchange), piece = std::move(piece)]() mutable {
    if (!is_current(exchange) || phase_ != Phase::streaming) return;
    const std::uint64_t counted = piece.size();
    push(stream_chunked_ ? as_chunk(piece) : std::move(piece), counted);
    write_next();
  });
}

void ServerConnection::queue_end(std::shared_ptr<Exchange> exchange) {
  post_turn([this, exchange = std::move(exchange)] {
    if (!is_current(exchange) || phase_ != Phase::streaming) return;
    stream_ended_ = true;
    if (stream_chunked_) push("0\r\n\r\n");
    write_next();
  });
}

void ServerConnection::queue_abort(std::shared_ptr<Exchange> exchange) {
  post_turn([this, exchange = std::move(exchange)] {
    if (is_current(exchange)) close();
  });
}

void ServerConnection::begin_answer(HttpResponse response) {
  phase_ = Phase::answering;
  if (response.status < 200 || response.status > 599) {
    response = problem_response(500, "internal", "the request's handler answered with no final status");
  }
  AnswerPlan plan = plan_answer(asked_, std::move(response));
  HttpResponse &answer = plan.response;
  keep_alive_ = keep_alive_ && parser_->done() && !core_->stopping();

  ResponseHead head;
  head.status = answer.status;
  head.headers = std::move(answer.headers);
  head.framing = may_have_body(answer.status) ? BodyFraming::length : BodyFraming::none;
  head.length = answer.source ? plan.length : answer.body.size();
  head.close = !keep_alive_;
  std::string text = serialize(head);

  const bool send_body = asked_.method != "HEAD" && head.framing == BodyFraming::length;
  if (send_body && answer.source) {
    source_ = std::move(answer.source);
    source_at_ = plan.first;
    source_left_ = plan.length;
    push(std::move(text));
    fetch();
  } else if (send_body && answer.body.size() <= kSmallBodyBytes) {
    push(text + answer.body);
  } else {
    push(std::move(text));
    if (send_body) push(std::move(answer.body));
    if (answer.source) release(std::move(answer.source));
  }
  write_next();
}

void ServerConnection::begin_stream(int status, Headers headers) {
  if (peer_has_finished_) {
    close();  // while nothing is written, its leaving would not be noticed
    return;
  }
  phase_ = Phase::streaming;
  stream_ended_ = false;
  stream_chunked_ = !parser_->head().http_1_0;
  keep_alive_ = keep_alive_ && stream_chunked_ && !core_->stopping();
  ResponseHead head;
  head.status = status;
  head.headers = std::move(headers);
  head.framing = stream_chunked_ ? BodyFraming::chunked : BodyFraming::close;
  head.close = !keep_alive_;
  push(serialize(head));
  if (asked_.method == "HEAD") {
    phase_ = Phase::answering;
    exchange_->finish();
  }
  write_next();
}

void ServerConnection::push(std::string bytes, std::uint64_t counted) {
  output_.push_back({std::move(bytes), counted});
}

void ServerConnection::write_next() {
  if (writing_ || phase_ == Phase::closed) return;
  if (output_.empty()) {
    on_queue_empty();
    return;
  }
  writing_ = true;
  if (phase_ == Phase::answering || phase_ == Phase::streaming) {
    last_progress_ = std::chrono::steady_clock::now();
    unacknowledged_ = std::numeric_limits<int>::max();
    if (!stopping_) arm(core_->options().idle_timeout / 4);
  }
  const std::string_view rest = std::string_view(output_.front().bytes).substr(written_of_front_);
  stream_.async_write_some(
      rest, [self = shared_from_this()](const boost::system::error_code &error, std::size_t bytes) {
        self->take_turn([&] { self->on_written(error, bytes); });
      });
}

void ServerConnection::on_written(const boost::system::error_code &error, std::size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::closed) return;
  if (error) {
    close();
    return;
  }
  written_of_front_ += bytes;
  Piece &front = output_.front();
  if (written_of_front_ == front.bytes.size()) {
    if (front.counted > 0 && exchange_) exchange_->written(front.counted);
    if (source_ && front.bytes.size() == kFetchBytes) spare_fetch_ = std::move(front.bytes);
    output_.pop_front();
    written_of_front_ = 0;
    fetch();
  }
  write_next();
}

void ServerConnection::on_queue_empty() {
  if (phase_ == Phase::answering && source_left_ == 0 && !fetching_) {
    on_answered();
  } else if (phase_ == Phase::streaming && stream_ended_) {
    on_answered();
  } else if (phase_ == Phase::answering || phase_ == Phase::streaming) {
    disarm();  // the peer waits for us, not we for it
  }
}

void ServerConnection::fetch() {
  if (!source_ || fetching_ || source_left_ == 0 || output_.size() >= 2) return;
  fetching_ = true;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(source_left_, kFetchBytes));
  const bool posted = post_work(
      [this, source = source_, at = source_at_, size, piece = std::exchange(spare_fetch_, {})]() mutable {
        std::optional<std::string> fetched;
        try {
          piece.resize(size);
          source->read_at(at, std::as_writable_bytes(std::span(piece.data(), piece.size())));
          fetched = std::move(piece);
        } catch (...) {
          core_->log_exception("http.source_failed", "reading an answer");
        }
        source.reset();
        post_turn([this, fetched = std::move(fetched)]() mutable { on_fetched(std::move(fetched)); });
      });
  source_at_ += size;
  source_left_ -= size;
  if (!posted) close();
}

void ServerConnection::on_fetched(std::optional<std::string> piece) {
  fetching_ = false;
  if (phase_ == Phase::closed) return;
  if (!piece) {
    close();  // the head promised more than there is: only a cut connection says so
    return;
  }
  push(*std::move(piece));
  write_next();
  fetch();
}

void ServerConnection::on_answered() {
  disarm();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->finish();
  release(std::exchange(source_, nullptr));
  spare_fetch_ = {};
  if (keep_alive_) {
    begin_request();
  } else {
    close_gently();
  }
}

// A close with unread bytes would reset the connection, and the peer might never see the answer.
void ServerConnection::close_gently() {
  if (core_->stopping()) {
    close();
    return;
  }
  phase_ = Phase::draining;
  drain_until_ = std::chrono::steady_clock::now() + limits::kHttpDrainTime;
  arm_drain();
  if (!stream_.is_tls()) {
    boost::system::error_code ignored;
    stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    read();
  } else if (!parser_->done()) {
    read();  // a TLS goodbye would make the rest of the body an error before it is read
  } else {
    shutting_tls_down_ = true;
    boost::system::error_code ignored;
    if (reading_) {
      stream_.socket().cancel(ignored);  // goes on in on_read
    } else {
      shut_tls_down();
    }
  }
}

void ServerConnection::arm_drain() {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(drain_until_ - std::chrono::steady_clock::now());
  arm(std::min(limits::kHttpDrainIdleTimeout, left));
}

void ServerConnection::shut_tls_down() {
  stream_.async_tls_shutdown(
      [self = shared_from_this()](const boost::system::error_code &) { self->close(); });
}

void ServerConnection::close() noexcept {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  try {
    timer_.cancel();
    stream_.close();
    if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->finish();
    cut_sink();
    release(std::exchange(source_, nullptr));
  } catch (...) {
    core_->log_exception("http.connection_failed", peer_);
  }
  core_->remove(shared_from_this());
}

}  // namespace parsyn::http
