// One request on its way there and back: two ordered streams of pieces between a client's fiber and the
// fibers of a server. Part of network.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "http/exchange.hpp"
#include "http/router.hpp"
#include "sim/network.hpp"

namespace parsyn::sim {

class Connection;

/// In the order in which they began: that of addresses would be another each time.
struct EarlierFirst {
  bool operator()(const std::shared_ptr<Connection> &a, const std::shared_ptr<Connection> &b) const;
};
using Connections = std::set<std::shared_ptr<Connection>, EarlierFirst>;

/// Which faults there are now.
struct Links {
  explicit Links(World &of) : world(of) {}

  World &world;
  Network::Faults general;
  std::map<std::pair<std::string, std::string>, Network::Faults> own;
  std::set<std::pair<std::string, std::string>> partitions;
  std::uint64_t connections = 0;

  const Network::Faults &of(const std::string &from, const std::string &to) const;
  bool apart(const std::string &from, const std::string &to) const { return partitions.contains({from, to}); }
  Time delay(const std::string &from, const std::string &to) const;
};

/// One direction: pieces arrive in order, late, or not at all.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  enum class Loss { nothing, silent, reset };

  Pipe(std::shared_ptr<Links> links, std::string from, std::string to);

  /// Draws what becomes of the next message, of so many pieces. `reset` is called instead of its first piece
  /// that is cut off.
  void begin_message(std::size_t pieces, std::function<void()> reset);
  void send(std::function<void()> arrive);
  /// What the operating system sends of its own: spared by loss and cut, but for a direction in which nothing
  /// comes any more.
  void send_plain(std::function<void()> arrive);
  bool is_dead() const { return dead_; }

 private:
  void pump_at(Time when);
  void pump();

  const std::shared_ptr<Links> links_;
  const std::string from_;
  const std::string to_;
  Loss loss_ = Loss::nothing;
  std::size_t pieces_until_loss_ = 0;
  std::function<void()> reset_;
  bool dead_ = false;
  bool pumping_ = false;
  std::uint64_t pumps_ = 0;  // that have run
  std::deque<std::pair<Time, std::function<void()>>> waiting_;
};

/// A server process that listens.
struct Listener : std::enable_shared_from_this<Listener> {
  Listener(Machine &of, std::vector<http::Route> routes)
      : machine(of), router(std::move(routes)), changed(of.make_signal()) {}

  Machine &machine;
  const http::Router router;
  const std::unique_ptr<system::Signal> changed;
  bool open = true;
  bool alive = true;        // its process
  std::size_t working = 0;  // fibers
  Connections connections;

  /// On a fiber of its own, which stop_listening() waits for.
  void start(std::function<void()> work);
  void close(bool killed);
};

struct Outgoing {
  std::string method;
  std::string target;
  http::Headers headers;
  std::string body;
};

struct AnswerPiece {
  std::string head;  // its text; empty: it has come
  std::string body;
  bool end = false;
};

/// From the client's first byte to the last of either side. All its methods but the server's are quick.
class Connection final : public http::AnswerChannel, public std::enable_shared_from_this<Connection> {
 public:
  /// `changed`, the client's, is notified when something has come; empty: nobody waits for the answer.
  Connection(std::shared_ptr<Links> links, std::string from, std::string to, std::function<void()> changed);

  std::uint64_t number() const { return number_; }
  /// Where the host listens is looked up when the first piece arrives.
  void send_request(Outgoing request, std::function<std::shared_ptr<Listener>()> find);

  // For the client.
  std::deque<AnswerPiece> answer;
  bool reset = false;                 // by the peer, or on the way
  std::uint64_t bytes_delivered = 0;  // of the request's body
  bool request_delivered = false;
  /// The client has gone; `answered`: with all that it wanted.
  void leave(bool answered);
  /// A middlebox's answer.
  void answer_from_middlebox(std::string text);

  // For the Listener.
  /// The process has gone, or wants no more of it.
  void end_of_server();

  // AnswerChannel
  void queue_answer(std::shared_ptr<http::Exchange> exchange, http::HttpResponse response) override;
  void queue_stream(std::shared_ptr<http::Exchange> exchange, int status, http::Headers headers) override;
  void queue_piece(std::shared_ptr<http::Exchange> exchange, std::string piece) override;
  void queue_end(std::shared_ptr<http::Exchange> exchange) override;
  void queue_abort(std::shared_ptr<http::Exchange> exchange) override;

 private:
  void arrive_at_server(std::string piece, bool last);
  std::function<void()> reset_here();
  void reset_both();
  void reset_client();
  void on_peer_gone();
  void end_exchange();

  // On fibers of the server's machine.
  void serve();
  http::HttpRequest incoming() const;
  /// Nothing: the peer has gone.
  std::optional<std::string> next_piece();
  void handle(const http::Route &route, http::HttpRequest request);
  void send_answer(http::HttpResponse response);
  void send_stream_piece(AnswerPiece piece);

  const std::shared_ptr<Links> links_;
  const std::uint64_t number_;
  const std::string from_;
  const std::string to_;
  std::function<void()> changed_;
  const std::shared_ptr<Pipe> to_server_;
  const std::shared_ptr<Pipe> to_client_;
  std::function<std::shared_ptr<Listener>()> find_;

  Outgoing request_;
  std::deque<std::string> received_;
  bool all_received_ = false;
  bool peer_gone_ = false;
  std::shared_ptr<Listener> listener_;  // null: nobody has taken the request, or it is over
  std::shared_ptr<http::Exchange> exchange_;
  std::mutex mutex_;  // only because a Signal wants one
};

/// Cuts an object's bytes into a few pieces; other bodies travel whole.
std::vector<std::string> pieces_of(World &world, const std::string &body, bool is_object);
bool is_object(const http::Headers &headers);

}  // namespace parsyn::sim
