#include "http/server_connection.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "http/request_target.hpp"
#include "http/text.hpp"

namespace parsyn::http {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeaderReadBytes = 4 << 10;
constexpr std::size_t kBodyReadBytes = 64 << 10;
/// What may wait unparsed: of a chunk's header while a body is read, or of the next requests of a pipeline.
constexpr std::size_t kInputBytesMax = 64 << 10;

HttpResponse no_memory_problem(const ServerCore &core, const std::string &where) {
  core.log(LogLevel::warning, "http.no_memory", where + ": there is no memory for it now");
  return problem_response(503, "unavailable", "the server has no memory for this request now; try it again");
}

HttpResponse internal_problem(const ServerCore &core, const std::string &where, const char *what) {
  core.log(LogLevel::error, "http.handler_failed", where + ": " + what);
  return problem_response(500, "internal", "the server failed at this request; its log says why");
}

/// What a handler or sink threw, as an answer.
HttpResponse problem_of_exception(const ServerCore &core, const std::string &where) {
  try {
    throw;
  } catch (const Error &error) {
    if (error.code() == ErrorCode::internal)
      core.log(LogLevel::error, "http.handler_failed", where + ": " + error.what());
    return problem_response(error);
  } catch (const std::bad_alloc &) {
    return no_memory_problem(core, where);
  } catch (const std::exception &error) {
    return internal_problem(core, where, error.what());
  } catch (...) {
    return internal_problem(core, where, "an exception of an unknown type");
  }
}

std::string name_of(const HttpRequest &request) { return request.method + " " + request.path; }

/// Runs the route's accept, then its handler: in one go for a request without a body.
void run_handler(const ServerCore &core, const Route &route, HttpRequest request,
                 std::shared_ptr<ByteSink> sink, const std::shared_ptr<Exchange> &exchange) {
  const Responder respond(std::make_shared<Responder::State>(exchange));
  const std::string name = name_of(request);
  try {
    route.handle(std::move(request), std::move(sink), respond);
  } catch (...) {
    respond.send(problem_of_exception(core, name));
  }
}

BodyPlan run_accept(const ServerCore &core, const Route &route, HttpRequest &request) {
  BodyPlan plan;
  if (!route.accept) return plan;
  try {
    plan = route.accept(request);
  } catch (...) {
    plan.refuse = problem_of_exception(core, name_of(request));
  }
  return plan;
}

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<ServerCore> core, ServerStream::Socket socket,
                                   boost::asio::ssl::context *tls, bool overloaded)
    : core_(std::move(core)),
      stream_(std::move(socket), tls),
      executor_(stream_.socket().get_executor()),
      overloaded_(overloaded),
      timer_(executor_) {}

void ServerConnection::start() {
  post_turn([this] {
    if (phase_ == Phase::closed) return;
    boost::system::error_code ignored;
    const auto remote = stream_.socket().remote_endpoint(ignored);
    const std::string address = remote.address().to_string();
    peer_ = (remote.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(remote.port());
    stream_.set_options();
    if (!stream_.is_tls()) {
      begin_request();
      return;
    }
    arm(core_->options().header_timeout);
    stream_.async_handshake([self = shared_from_this()](const boost::system::error_code &error) {
      self->take_turn([&] { self->on_handshake(error); });
    });
  });
}

void ServerConnection::on_handshake(const boost::system::error_code &error) {
  if (phase_ == Phase::closed) return;
  if (error) {
    core_->log(LogLevel::debug, "http.handshake_failed", peer_ + ": " + error.message());
    close();
  } else {
    begin_request();
  }
}

void ServerConnection::stop(std::chrono::milliseconds patience) {
  post_turn([this, patience] {
    const bool answer_nearly_out = phase_ == Phase::answering && !source_;
    if (patience.count() == 0 || !answer_nearly_out) {
      close();
      return;
    }
    stopping_ = true;
    keep_alive_ = false;
    arm(patience);
  });
}

// One timer serves all limits: moving the deadline is an assignment, and the timer looks at it when it fires.
void ServerConnection::arm(std::chrono::milliseconds from_now) {
  deadline_ = Clock::now() + from_now;
  if (deadline_ < timer_at_) wait_for_deadline();
}

void ServerConnection::disarm() {
  if (!stopping_) deadline_ = Clock::time_point::max();
}

void ServerConnection::wait_for_deadline() {
  timer_at_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code &error) {
    if (!error) self->take_turn([&] { self->on_timer(); });
  });
}

void ServerConnection::on_timer() {
  if (phase_ == Phase::closed) return;
  timer_at_ = Clock::time_point::max();
  if (Clock::now() >= deadline_) {
    deadline_ = Clock::time_point::max();
    on_deadline();
  } else if (deadline_ != Clock::time_point::max()) {
    wait_for_deadline();
  }
}

void ServerConnection::on_deadline() {
  if (stopping_) {
    close();
    return;
  }
  switch (phase_) {
    case Phase::header:
      keep_alive_ = false;
      refuse(problem_response(408, "timeout", "the request's header did not come within its time"));
      return;
    case Phase::body:
      keep_alive_ = false;
      refuse(problem_response(408, "timeout", "the request's body made no progress within its time"));
      return;
    case Phase::answering:
    case Phase::streaming: {
      // What the operating system took long ago may still be on its way over a slow line: that is progress,
      // too.
      const int now = stream_.unacknowledged_bytes();
      if (now < unacknowledged_ && unacknowledged_ != std::numeric_limits<int>::max())
        last_progress_ = Clock::now();
      unacknowledged_ = now;
      const auto idle_timeout = core_->options().idle_timeout;
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(last_progress_ + idle_timeout - Clock::now());
      if (left.count() <= 0) {
        close();
      } else {
        arm(std::min(left, idle_timeout / 4));
      }
      return;
    }
    default:
      close();
      return;
  }
}

void ServerConnection::begin_request() {
  phase_ = Phase::idle;
  parser_.emplace(core_->options().header_bytes_max);
  request_ = {};
  route_ = nullptr;
  const bool first = std::exchange(first_request_, false);
  arm(first ? core_->options().header_timeout : core_->options().keep_alive_timeout);
  if (input_.empty()) {
    read();
  } else {
    take_head(std::exchange(input_, {}));
  }
}

void ServerConnection::read() {
  if (reading_ || phase_ == Phase::closed) return;
  reading_ = true;
  const std::size_t size =
      phase_ == Phase::body || phase_ == Phase::draining ? kBodyReadBytes : kHeaderReadBytes;
  // An idle connection keeps the small buffer only: there may be thousands.
  if (read_buffer_.size() != size) read_buffer_ = std::vector<char>(size);
  stream_.async_read_some(
      boost::asio::buffer(read_buffer_),
      [self = shared_from_this()](const boost::system::error_code &error, std::size_t bytes) {
        self->take_turn([&] { self->on_read(error, bytes); });
      });
}

void ServerConnection::on_read(const boost::system::error_code &error, std::size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::draining && shutting_tls_down_) {
    shut_tls_down();
    return;
  }
  if (!error) {
    received({read_buffer_.data(), bytes});
  } else if (phase_ == Phase::answering) {
    // The peer may have closed its sending side only; if it is gone, a write will say so.
    keep_alive_ = false;
  } else if (phase_ == Phase::handling && error == boost::asio::error::eof &&
             (asked_.method == "GET" || asked_.method == "HEAD")) {
    keep_alive_ = false;
    peer_has_finished_ = true;
    arm(core_->options().idle_timeout);
  } else {
    close();
  }
}

void ServerConnection::received(std::string_view bytes) {
  switch (phase_) {
    case Phase::idle:
    case Phase::header:
      take_head(bytes);
      return;
    case Phase::body:
      take_body(bytes);
      return;
    case Phase::draining:
      drained_bytes_ += bytes.size();
      arm_drain();
      // Over the bound, nothing is read any more, and the peer has until the deadline to read the answer.
      if (drained_bytes_ < limits::kHttpDrainBytesMax) read();
      return;
    default:
      input_.append(bytes);
      if (input_.size() < kInputBytesMax) read();
  }
}

void ServerConnection::take_head(std::string_view bytes) {
  std::string joined;
  if (!input_.empty()) {
    joined.swap(input_);
    joined.append(bytes);
    bytes = joined;
  }
  if (phase_ == Phase::idle) {
    phase_ = Phase::header;
    arm(core_->options().header_timeout);
  }
  std::string no_body;
  const std::size_t taken = parser_->put(bytes, no_body);
  input_.assign(bytes.substr(taken));
  if (parser_->refusal()) {
    keep_alive_ = false;
    const Refusal &refusal = *parser_->refusal();
    refuse(
        problem_response(refusal.status, refusal.status == 431 ? "too_large" : "protocol", refusal.detail));
  } else if (parser_->head_done()) {
    on_head();
  } else {
    read();
  }
}

void ServerConnection::on_head() {
  disarm();
  const RequestHead &head = parser_->head();
  keep_alive_ = head.keep_alive && !overloaded_;
  request_.method = head.method;
  request_.headers = head.headers;
  request_.peer = peer_;
  asked_ = {};
  asked_.method = head.method;
  for (const char *name : {"If-Match", "If-None-Match", "If-Range", "Range"}) {
    const auto found = head.headers.find(name);
    if (found != head.headers.end()) asked_.headers.insert(*found);
  }
  if (overloaded_) {
    auto response =
        problem_response(503, "unavailable", "the server has as many connections as it may have; come again");
    response.headers["Retry-After"] = "5";
    refuse(std::move(response));
    return;
  }
  try {
    auto target = parse_request_target(head.target);
    request_.path = std::move(target.path);
    request_.query = std::move(target.query);
  } catch (const Error &error) {
    refuse(problem_response(error));
    return;
  }
  const std::string expected = request_.header("Expect");
  if (!expected.empty() && !same_word(expected, "100-continue")) {
    refuse(problem_response(417, "unsupported", "the only expectation that is met is 100-continue"));
    return;
  }
  auto match = core_->router().find(request_.method, request_.path);
  if (!match.route && match.allowed.empty()) {
    refuse(problem_response(404, "not_found", "there is nothing at " + request_.path));
  } else if (!match.route) {
    auto response = problem_response(405, "unsupported", request_.path + " knows " + match.allowed + " only");
    response.headers["Allow"] = match.allowed;
    refuse(std::move(response));
  } else {
    route_ = match.route;
    request_.parameters = std::move(match.parameters);
    decide();
  }
}

void ServerConnection::decide() {
  bool posted = false;
  if (parser_->head().has_body()) {
    phase_ = Phase::deciding;
    posted = post_work([this, route = route_, request = std::move(request_)]() mutable {
      BodyPlan plan = run_accept(*core_, *route, request);
      post_turn([this, request = std::move(request), plan = std::move(plan)]() mutable {
        on_decided(std::move(request), std::move(plan));
      });
    });
  } else {
    phase_ = Phase::handling;
    exchange_ = new_exchange();
    posted = post_work([this, route = route_, request = std::move(request_), exchange = exchange_]() mutable {
      BodyPlan plan = run_accept(*core_, *route, request);
      if (plan.refuse) {
        exchange->send(*std::move(plan.refuse));
        return;
      }
      if (plan.sink) request.body_sha256 = system::sha256_hex(std::string_view());
      run_handler(*core_, *route, std::move(request), std::move(plan.sink), exchange);
    });
    read();
  }
  if (!posted) close();
}

void ServerConnection::on_decided(HttpRequest request, BodyPlan plan) {
  if (phase_ != Phase::deciding) {
    release(std::move(plan.sink));
    return;
  }
  const RequestHead &head = parser_->head();
  if (plan.refuse) {
    release(std::move(plan.sink));
    refuse(*std::move(plan.refuse));
    return;
  }
  if (head.content_length > plan.bytes_max) {
    release(std::move(plan.sink));
    refuse(problem_response(413, "too_large",
                            "the body has " + std::to_string(head.content_length) + " bytes; at most " +
                                std::to_string(plan.bytes_max) + " are taken"));
    return;
  }
  request_ = std::move(request);
  body_bytes_max_ = plan.bytes_max;
  body_waited_ = {};
  sink_.reset();
  if (plan.sink) {
    sink_ = std::make_shared<SinkState>();
    sink_->sink = std::move(plan.sink);
  }
  phase_ = Phase::body;
  body_read_began_ = Clock::now();
  if (!head.http_1_0 && input_.empty() && !request_.header("Expect").empty()) {
    push("HTTP/1.1 100 Continue\r\n\r\n");
    write_next();
  }
  take_body({});
}

void ServerConnection::take_body(std::string_view bytes) {
  body_waited_ += Clock::now() - body_read_began_;
  std::string joined;
  if (!input_.empty()) {
    joined.swap(input_);
    joined.append(bytes);
    bytes = joined;
  }
  std::string &body = sink_ ? piece_ : request_.body;
  const std::size_t before = body.size();
  const std::size_t taken = parser_->put(bytes, body);
  request_.body_bytes += body.size() - before;
  input_.assign(bytes.substr(taken));
  if (parser_->refusal()) {
    keep_alive_ = false;
    refuse(problem_response(parser_->refusal()->status, "protocol", parser_->refusal()->detail));
  } else if (request_.body_bytes > body_bytes_max_) {
    piece_.clear();
    refuse(problem_response(413, "too_large",
                            "the body has more than " + std::to_string(body_bytes_max_) + " bytes"));
  } else {
    advance_body();
  }
}

void ServerConnection::advance_body() {
  // The next piece is read while the pool writes the last one; with both full, the peer has to wait.
  const bool all_here = parser_->done();
  if (sink_) {
    const bool piece_ready = piece_.size() >= kBodyReadBytes || (all_here && !piece_.empty());
    if (piece_ready && !sink_busy_) write_to_sink();
    if (phase_ != Phase::body) return;
    if (piece_.size() >= kBodyReadBytes || (all_here && (sink_busy_ || !piece_.empty()))) {
      disarm();
      return;
    }
  }
  if (all_here) {
    handle();
  } else if (body_is_too_slow()) {
    keep_alive_ = false;
    refuse(problem_response(408, "timeout",
                            "the request's body came with less than " +
                                std::to_string(core_->options().body_rate_min) + " bytes a second"));
  } else {
    if (!reading_) body_read_began_ = Clock::now();
    arm(core_->options().idle_timeout);
    read();
  }
}

bool ServerConnection::body_is_too_slow() const {
  if (body_waited_ < core_->options().body_rate_grace) return false;
  const double seconds = std::chrono::duration<double>(body_waited_).count();
  return static_cast<double>(request_.body_bytes) <
         seconds * static_cast<double>(core_->options().body_rate_min);
}

void ServerConnection::write_to_sink() {
  sink_busy_ = true;
  std::string piece = std::exchange(piece_, std::move(spare_piece_));
  piece_.clear();
  const bool posted =
      post_work([this, sink = sink_, piece = std::move(piece), name = name_of(request_)]() mutable {
        std::optional<HttpResponse> failure;
        try {
          const auto bytes = std::as_bytes(std::span(piece.data(), piece.size()));
          sink->sink->write(bytes);
          sink->digest.update(bytes);
        } catch (...) {
          failure = problem_of_exception(*core_, name);
        }
        post_turn(
            [this, sink = std::move(sink), failure = std::move(failure), piece = std::move(piece)]() mutable {
              on_sink_written(std::move(sink), std::move(failure), std::move(piece));
            });
      });
  if (!posted) close();
}

void ServerConnection::on_sink_written(std::shared_ptr<SinkState> sink, std::optional<HttpResponse> failure,
                                       std::string buffer) {
  if (sink != sink_) {
    if (failure) sink->rest.clear();
    finish_cut(std::move(sink));
    return;
  }
  sink_busy_ = false;
  spare_piece_ = std::move(buffer);
  if (failure) {
    piece_.clear();
    refuse(*std::move(failure));
  } else {
    advance_body();
  }
}

void ServerConnection::handle() {
  phase_ = Phase::handling;
  disarm();
  exchange_ = new_exchange();
  std::shared_ptr<ByteSink> sink;
  if (sink_) {
    request_.body_sha256 = sink_->digest.hex();
    sink = std::move(sink_->sink);
    sink_.reset();
    spare_piece_ = {};
    piece_ = {};
  }
  const bool posted = post_work([this, route = route_, request = std::move(request_), sink = std::move(sink),
                                 exchange = exchange_]() mutable {
    run_handler(*core_, *route, std::move(request), std::move(sink), exchange);
  });
  if (posted) {
    read();
  } else {
    close();
  }
}

void ServerConnection::refuse(HttpResponse response) {
  cut_sink();
  begin_answer(std::move(response));
}

void ServerConnection::cut_sink() {
  auto sink = std::exchange(sink_, nullptr);
  if (!sink) return;
  sink->rest = std::exchange(piece_, {});
  if (!std::exchange(sink_busy_, false)) finish_cut(std::move(sink));
}

void ServerConnection::finish_cut(std::shared_ptr<SinkState> sink) const {
  core_->post(pool(), [sink = std::move(sink)] {
    if (sink->rest.empty()) return;
    try {
      sink->sink->write(std::as_bytes(std::span(sink->rest.data(), sink->rest.size())));
    } catch (...) {
      // Nobody is there any more to be told.
    }
  });
}

std::shared_ptr<Exchange> ServerConnection::new_exchange() {
  return std::make_shared<Exchange>(weak_from_this(), core_->options().stream_queue_bytes_max,
                                    [core = core_, pool = pool()](std::function<void()> callback) {
                                      core->run_callback(pool, std::move(callback));
                                    });
}

void ServerConnection::release(std::shared_ptr<const void> last_reference) const {
  if (last_reference) core_->post(pool(), [last_reference = std::move(last_reference)] {});
}

}  // namespace parsyn::http
