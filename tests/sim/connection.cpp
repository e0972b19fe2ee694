#include "sim/connection.hpp"

#include <algorithm>
#include <span>

#include "http/answer_plan.hpp"
#include "http/request_target.hpp"
#include "http/response_head.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "system/sha256.hpp"

namespace parsyn::sim {
namespace {

constexpr std::size_t kPiecesMax = 4;
constexpr std::uint64_t kStreamQueueBytesMax = 4ULL << 20;
constexpr Time kSendAgainMax{1'000};
/// After which the probes of a silent connection find that nobody is there.
constexpr Time kKeepAliveEnd{60'000};

/// What a handler or sink threw, as HttpServer answers it.
http::HttpResponse problem_of_exception() {
  try {
    throw;
  } catch (const Error &error) {
    return http::problem_response(error);
  } catch (const std::exception &error) {
    return http::problem_response(500, "internal", error.what());
  }
}

http::ResponseHead head_of(http::HttpResponse &response) {
  http::ResponseHead head;
  head.status = response.status;
  head.headers = std::move(response.headers);
  if (response.status == 204 || response.status == 304) head.framing = http::BodyFraming::none;
  return head;
}

}  // namespace

std::vector<std::string> pieces_of(World &world, const std::string &body, bool is_object) {
  if (!is_object || body.empty()) return {body};
  std::vector<std::string> pieces;
  std::size_t at = 0;
  while (at < body.size() && pieces.size() + 1 < kPiecesMax) {
    const auto size = static_cast<std::size_t>(1 + world.draw(body.size() - at));
    pieces.push_back(body.substr(at, size));
    at += size;
  }
  if (at < body.size()) pieces.push_back(body.substr(at));
  return pieces;
}

bool is_object(const http::Headers &headers) {
  const auto type = headers.find("Content-Type");
  return type != headers.end() && type->second == "application/octet-stream";
}

const Network::Faults &Links::of(const std::string &from, const std::string &to) const {
  const auto found = own.find({from, to});
  return found == own.end() ? general : found->second;
}

Time Links::delay(const std::string &from, const std::string &to) const {
  const Network::Faults &faults = of(from, to);
  const bool late = world.chance(faults.late);
  const Time least = late ? faults.delay_max : faults.delay_min;
  const Time most = std::max(least, late ? faults.late_max : faults.delay_max);
  return least + Time(world.draw(static_cast<std::uint64_t>((most - least).count()) + 1));
}

Pipe::Pipe(std::shared_ptr<Links> links, std::string from, std::string to)
    : links_(std::move(links)), from_(std::move(from)), to_(std::move(to)) {}

void Pipe::begin_message(std::size_t pieces, std::function<void()> reset) {
  const Network::Faults &faults = links_->of(from_, to_);
  loss_ = links_->world.chance(faults.lose)  ? Loss::silent
          : links_->world.chance(faults.cut) ? Loss::reset
                                             : Loss::nothing;
  if (loss_ != Loss::nothing) pieces_until_loss_ = links_->world.draw(pieces);
  reset_ = std::move(reset);
}

void Pipe::send(std::function<void()> arrive) {
  if (loss_ != Loss::nothing && pieces_until_loss_-- == 0) {
    if (loss_ == Loss::reset && !dead_) send_plain(reset_);
    dead_ = true;
  }
  send_plain(std::move(arrive));
}

void Pipe::send_plain(std::function<void()> arrive) {
  if (dead_) return;
  const Time when = links_->world.now() + links_->delay(from_, to_);
  waiting_.emplace_back(when, std::move(arrive));
  if (!pumping_) pump_at(when);
}

void Pipe::pump_at(Time when) {
  pumping_ = true;
  // What waits holds the connection, and so this pipe: a world that ends before the pump runs lets it go.
  const std::shared_ptr<Pipe> last(this, [keep = shared_from_this(), pumps = pumps_](Pipe *pipe) {
    if (pipe->pumps_ == pumps) pipe->waiting_.clear();
  });
  links_->world.at(when, [last] { last->pump(); });
}

void Pipe::pump() {
  ++pumps_;
  World &world = links_->world;
  while (!waiting_.empty() && waiting_.front().first <= world.now()) {
    if (links_->apart(from_, to_)) {
      pump_at(world.now() + Time(1 + world.draw(static_cast<std::uint64_t>(kSendAgainMax.count()))));
      return;
    }
    const std::function<void()> arrive = std::move(waiting_.front().second);
    waiting_.pop_front();
    arrive();
  }
  pumping_ = false;
  if (!waiting_.empty()) pump_at(waiting_.front().first);
}

void Listener::close(bool killed) {
  open = false;
  alive = alive && !killed;
  for (const auto &connection : std::exchange(connections, {})) connection->end_of_server();
  changed->notify_all();
}

void Listener::start(std::function<void()> work) {
  if (!alive) return;
  ++working;
  machine.start_process([self = shared_from_this(), work = std::move(work)] {
    work();
    --self->working;
    self->changed->notify_all();
  });
}

bool EarlierFirst::operator()(const std::shared_ptr<Connection> &a,
                              const std::shared_ptr<Connection> &b) const {
  return a->number() < b->number();
}

Connection::Connection(std::shared_ptr<Links> links, std::string from, std::string to,
                       std::function<void()> changed)
    : links_(std::move(links)),
      number_(++links_->connections),
      from_(std::move(from)),
      to_(std::move(to)),
      changed_(std::move(changed)),
      to_server_(std::make_shared<Pipe>(links_, from_, to_)),
      to_client_(std::make_shared<Pipe>(links_, to_, from_)) {}

void Connection::send_request(Outgoing request, std::function<std::shared_ptr<Listener>()> find) {
  World &world = links_->world;
  request_ = std::move(request);
  find_ = std::move(find);
  const std::string path = request_.target.substr(0, request_.target.find('?'));
  world.trace(from_ + " > " + to_ + " #" + std::to_string(number_) + " " + request_.method + " " + path +
              (changed_ ? "" : " again"));

  std::string body = std::exchange(request_.body, {});
  const bool object = is_object(request_.headers);
  if (object && !body.empty() && world.chance(links_->of(from_, to_).corrupt)) {
    body[world.draw(body.size())] ^= static_cast<char>(1U << world.draw(8));
    world.trace("a bit flips in #" + std::to_string(number_));
  }
  std::vector<std::string> pieces = pieces_of(world, body, object);
  request_.headers["Content-Length"] = std::to_string(body.size());
  // Of an object the header comes first and alone.
  if (object) pieces.insert(pieces.begin(), "");
  const auto self = shared_from_this();
  to_server_->begin_message(pieces.size(), reset_here());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool last = i + 1 == pieces.size();
    to_server_->send([self, last, piece = std::move(pieces[i])] { self->arrive_at_server(piece, last); });
  }
}

void Connection::arrive_at_server(std::string piece, bool last) {
  if (const auto find = std::exchange(find_, nullptr)) {
    listener_ = find();
    if (!listener_) {
      reset_client();
      return;
    }
    listener_->connections.insert(shared_from_this());
    listener_->start([self = shared_from_this()] { self->serve(); });
  }
  bytes_delivered += piece.size();
  request_delivered = request_delivered || last;
  if (changed_) changed_();
  if (!listener_) return;  // refused before its body came
  if (!piece.empty()) received_.push_back(std::move(piece));
  all_received_ = all_received_ || last;
  listener_->changed->notify_all();
}

void Connection::leave(bool answered) {
  changed_ = nullptr;
  answer.clear();
  if (answered) return;
  const auto self = shared_from_this();
  if (to_server_->is_dead()) {
    links_->world.at(links_->world.now() + kKeepAliveEnd, [self] { self->on_peer_gone(); });
  } else {
    to_server_->send_plain([self] { self->on_peer_gone(); });
  }
}

void Connection::answer_from_middlebox(std::string text) {
  to_client_->send_plain([self = shared_from_this(), text = std::move(text)] {
    self->answer.push_back({text, {}, true});
    if (self->changed_) self->changed_();
  });
}

std::function<void()> Connection::reset_here() {
  return [weak = weak_from_this()] {
    if (const auto connection = weak.lock()) connection->reset_both();
  };
}

void Connection::reset_both() {
  reset = true;
  if (changed_) changed_();
  on_peer_gone();
}

void Connection::reset_client() {
  to_client_->send_plain([self = shared_from_this()] {
    self->reset = true;
    if (self->changed_) self->changed_();
  });
}

void Connection::on_peer_gone() {
  peer_gone_ = true;
  if (!listener_) return;
  listener_->changed->notify_all();
  end_exchange();
}

void Connection::end_of_server() {
  if (const auto listener = std::exchange(listener_, nullptr)) listener->changed->notify_all();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->finish();
  reset_client();
}

void Connection::end_exchange() {
  const auto exchange = std::exchange(exchange_, nullptr);
  if (!exchange) return;
  exchange->finish();
  if (const auto listener = std::exchange(listener_, nullptr))
    listener->connections.erase(shared_from_this());
}

// The server's side: what ServerConnection does, in its order.

http::HttpRequest Connection::incoming() const {
  http::HttpRequest request;
  request.method = request_.method;
  request.headers = request_.headers;
  request.peer = from_;
  return request;
}

void Connection::serve() {
  const std::shared_ptr<Listener> listener = listener_;
  if (!listener) return;
  exchange_ =
      std::make_shared<http::Exchange>(weak_from_this(), kStreamQueueBytesMax,
                                       [weak = std::weak_ptr(listener)](std::function<void()> callback) {
                                         if (const auto still = weak.lock())
                                           still->start(std::move(callback));
                                       });
  http::HttpRequest request = incoming();
  try {
    http::RequestTarget target = http::parse_request_target(request_.target);
    request.path = std::move(target.path);
    request.query = std::move(target.query);
  } catch (const Error &error) {
    return send_answer(http::problem_response(error));
  }
  auto match = listener->router.find(request.method, request.path);
  if (!match.route) {
    return send_answer(
        match.allowed.empty()
            ? http::problem_response(404, "not_found", "there is nothing at " + request.path)
            : http::problem_response(405, "unsupported", request.path + " knows " + match.allowed + " only"));
  }
  request.parameters = std::move(match.parameters);
  handle(*match.route, std::move(request));
}

std::optional<std::string> Connection::next_piece() {
  const std::shared_ptr<Listener> listener = listener_;
  if (!listener) return std::nullopt;
  std::unique_lock lock(mutex_);
  const Time idle = listener->machine.now() + limits::kTransferIdleTimeout;
  const bool came = listener->machine.wait_until(*listener->changed, lock, idle, [this] {
    return !listener_ || peer_gone_ || !received_.empty() || all_received_;
  });
  if (!listener_) return std::nullopt;
  if (!came) {
    lock.unlock();
    send_answer(http::problem_response(408, "timeout", "the request's body made no progress in its time"));
    return std::nullopt;
  }
  if (received_.empty()) return peer_gone_ && !all_received_ ? std::nullopt : std::optional<std::string>("");
  std::string piece = std::move(received_.front());
  received_.pop_front();
  return piece;
}

void Connection::handle(const http::Route &route, http::HttpRequest request) {
  http::BodyPlan plan;
  try {
    if (route.accept) plan = route.accept(request);
  } catch (...) {
    plan.refuse = problem_of_exception();
  }
  if (plan.refuse) return send_answer(*std::move(plan.refuse));
  if (std::stoull(request_.headers.at("Content-Length")) > plan.bytes_max) {
    return send_answer(http::problem_response(
        413, "too_large", "the body has more than " + std::to_string(plan.bytes_max) + " bytes"));
  }
  system::Sha256 digest;
  for (;;) {
    std::optional<std::string> piece = next_piece();
    if (!piece) return;
    if (piece->empty()) break;
    request.body_bytes += piece->size();
    if (!plan.sink) {
      request.body += *piece;
      continue;
    }
    try {
      plan.sink->write(std::as_bytes(std::span(piece->data(), piece->size())));
    } catch (...) {
      return send_answer(problem_of_exception());
    }
    digest.update(*piece);
  }
  if (plan.sink) request.body_sha256 = digest.hex();
  const auto exchange = exchange_;
  if (!exchange) return;
  const http::Responder respond(std::make_shared<http::Responder::State>(exchange));
  try {
    route.handle(std::move(request), std::move(plan.sink), respond);
  } catch (...) {
    respond.send(problem_of_exception());
  }
}

void Connection::send_answer(http::HttpResponse response) {
  if (!listener_ || peer_gone_) return end_exchange();
  http::AnswerPlan plan = http::plan_answer(incoming(), std::move(response));
  http::HttpResponse &answered = plan.response;
  links_->world.trace(to_ + " #" + std::to_string(number_) + " answers " + std::to_string(answered.status));
  std::string body = std::move(answered.body);
  const std::shared_ptr<const ByteSource> source = std::move(answered.source);
  std::uint64_t length = body.size();
  bool broken = false;
  if (source) {
    length = plan.length;
    body.resize(static_cast<std::size_t>(length));
    try {
      source->read_at(plan.first, std::as_writable_bytes(std::span(body.data(), body.size())));
    } catch (const std::exception &) {
      broken = true;  // the head promises more than there is: only a cut connection says so
    }
  }
  if (!listener_ || peer_gone_) return end_exchange();
  const bool object = is_object(answered.headers);
  if (object && !body.empty() && links_->world.chance(links_->of(to_, from_).corrupt)) {
    body[links_->world.draw(body.size())] ^= static_cast<char>(1U << links_->world.draw(8));
    links_->world.trace("a bit flips in the answer to #" + std::to_string(number_));
  }
  http::ResponseHead head = head_of(answered);
  head.length = length;
  if (request_.method == "HEAD" || head.framing == http::BodyFraming::none || broken) body.clear();

  std::vector<AnswerPiece> pieces{{http::serialize(head), {}, false}};
  for (std::string &piece : pieces_of(links_->world, body, object)) {
    if (object) {
      pieces.push_back({{}, std::move(piece), false});
    } else {
      pieces.back().body = std::move(piece);
    }
  }
  pieces.back().end = true;
  to_client_->begin_message(pieces.size(), reset_here());
  if (broken) {
    pieces.resize(1);
    pieces.back().end = false;
  }
  for (AnswerPiece &piece : pieces) send_stream_piece(std::move(piece));
  if (broken) reset_client();
  end_exchange();
}

void Connection::send_stream_piece(AnswerPiece piece) {
  to_client_->send([self = shared_from_this(), piece = std::move(piece)] {
    if (!self->changed_) return;
    self->answer.push_back(piece);
    self->changed_();
  });
}

// Called with the exchange's lock held: what may wait goes to a fiber of its own.
void Connection::queue_answer(std::shared_ptr<http::Exchange>, http::HttpResponse response) {
  if (!listener_) return;
  listener_->start(
      [self = shared_from_this(), response = std::move(response)] { self->send_answer(response); });
}

void Connection::queue_stream(std::shared_ptr<http::Exchange>, int status, http::Headers headers) {
  if (!listener_) return;
  http::ResponseHead head;
  head.status = status;
  head.headers = std::move(headers);
  head.framing = http::BodyFraming::chunked;
  to_client_->begin_message(1, reset_here());
  send_stream_piece({http::serialize(head), {}, false});
}

void Connection::queue_piece(std::shared_ptr<http::Exchange> exchange, std::string piece) {
  const std::uint64_t bytes = piece.size();
  send_stream_piece({{}, std::move(piece), false});
  to_client_->send_plain([exchange, bytes] { exchange->written(bytes); });
}

void Connection::queue_end(std::shared_ptr<http::Exchange>) {
  send_stream_piece({{}, {}, true});
  if (listener_) listener_->start([self = shared_from_this()] { self->end_exchange(); });
}

void Connection::queue_abort(std::shared_ptr<http::Exchange>) {
  if (listener_) listener_->start([self = shared_from_this()] { self->reset_both(); });
}

}  // namespace parsyn::sim
