// One request's answer, between the handler's threads and the connection's.
//
// The connection and the handler's Responder both hold the Exchange. Whoever ends it first decides: an answer
// after the peer has gone is dropped, and on_done callbacks run once, on the handler pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "http/http_server.hpp"

namespace parsyn::http {

class Exchange;

/// What an Exchange hands answers to: the connection. Called from any thread, with the Exchange's lock held,
/// in the order of the Responder's calls; must only queue. A call that throws, for want of memory, has queued
/// nothing, and the Responder's call is as if it had not been.
class AnswerChannel {
 public:
  virtual ~AnswerChannel() = default;
  virtual void queue_answer(std::shared_ptr<Exchange> exchange, HttpResponse response) = 0;
  virtual void queue_stream(std::shared_ptr<Exchange> exchange, int status, Headers headers) = 0;
  virtual void queue_piece(std::shared_ptr<Exchange> exchange, std::string piece) = 0;
  virtual void queue_end(std::shared_ptr<Exchange> exchange) = 0;
  /// The peer reads too slowly: the connection is closed.
  virtual void queue_abort(std::shared_ptr<Exchange> exchange) = 0;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  /// `run` runs a callback away from the I/O threads.
  Exchange(std::weak_ptr<AnswerChannel> channel, std::uint64_t stream_queue_bytes_max,
           std::function<void(std::function<void()>)> run)
      : channel_(std::move(channel)), stream_queue_bytes_max_(stream_queue_bytes_max), run_(std::move(run)) {}

  // For the Responder.
  void send(HttpResponse response);
  bool start_stream(int status, Headers headers);
  bool write(std::string piece);
  bool is_full() const;
  void on_room(std::function<void()> room);
  void end_stream();
  bool is_gone() const;
  void on_done(std::function<void()> gone);
  /// The last Responder is gone.
  void abandon() noexcept;

  // For the connection.
  /// So many bytes of the stream have been given to the operating system.
  void written(std::uint64_t bytes);
  /// The answer has been sent, or never will be. Nothing reaches the channel after this.
  void finish();

 private:
  enum class Phase { waiting, answered, streaming, ended, finished };

  std::uint64_t full_bytes() const { return std::max<std::uint64_t>(stream_queue_bytes_max_ / 4, 1); }

  const std::weak_ptr<AnswerChannel> channel_;
  const std::uint64_t stream_queue_bytes_max_;
  const std::function<void(std::function<void()>)> run_;
  mutable std::mutex mutex_;
  Phase phase_ = Phase::waiting;                // guarded by mutex_
  std::uint64_t queued_bytes_ = 0;              // guarded by mutex_
  std::function<void()> on_room_;               // guarded by mutex_
  std::vector<std::function<void()>> on_done_;  // guarded by mutex_
};

struct Responder::State {
  explicit State(std::shared_ptr<Exchange> of) : exchange(std::move(of)) {}
  ~State() { exchange->abandon(); }
  State(const State &) = delete;
  State &operator=(const State &) = delete;

  const std::shared_ptr<Exchange> exchange;
};

}  // namespace parsyn::http
