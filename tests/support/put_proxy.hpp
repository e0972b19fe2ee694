// A middlebox on loopback that passes TCP on, counts what the bodies of PUT requests weigh, and spoils the
// next one as a test wants it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/pass_connections.hpp"

namespace parsyn::test {

class PutProxy {
 public:
  /// A PUT request that passed, perhaps in part.
  struct Put {
    std::string head;
    std::uint64_t body_bytes = 0;
    std::chrono::steady_clock::time_point begun;
  };

  explicit PutProxy(std::uint16_t upstream) : upstream_(upstream), thread_([this] { run(); }) {}
  ~PutProxy() {
    stopping_ = true;
    thread_.join();
  }
  PutProxy(const PutProxy &) = delete;
  PutProxy &operator=(const PutProxy &) = delete;

  std::string url() const { return listener_.url(); }
  /// The connection of the next PUT ends after so many bytes of its body.
  void cut_after(std::uint64_t body_bytes) {
    const std::lock_guard lock(mutex_);
    cut_after_ = body_bytes;
  }
  /// The next PUT is passed on, and its connection ends instead of being answered.
  void lose_answer() { lose_answer_ = true; }
  /// The next bodies of PUT requests are read to their end, and answered 503 instead of being passed on.
  void refuse(int times, std::chrono::seconds retry_after) {
    const std::lock_guard lock(mutex_);
    refusals_ = times;
    retry_after_ = retry_after;
  }
  /// One bit of the next PUT's body is flipped.
  void flip_bit() { flip_bit_ = true; }

  /// All so far.
  std::vector<Put> puts() const {
    const std::lock_guard lock(mutex_);
    return puts_;
  }

 private:
  struct UnderWay {
    std::optional<std::size_t> put;        // the request is this one of puts_
    std::optional<std::uint64_t> refused;  // and goes no further: the length of its body
  };
  struct Pair {
    RawConnection client;
    RawConnection server;
    UnderWay request;
  };

  void run() {
    pass_connections<Pair>(listener_, upstream_, stopping_,
                           [this](Pair &pair, bool client_has, bool server_has) {
                             return (!client_has || pass_request(pair)) && (!server_has || pass_answer(pair));
                           });
  }

  /// Nothing when the connection has ended.
  static std::optional<std::string> take(const RawConnection &from) {
    char buffer[16384];
    const ssize_t got = ::recv(from.descriptor(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return "";
    return got > 0 ? std::optional(std::string(buffer, static_cast<std::size_t>(got))) : std::nullopt;
  }

  // A client sends its next request when it has the answer to the last one: a request begins with a piece.
  bool pass_request(Pair &pair) {
    auto piece = take(pair.client);
    if (!piece || piece->empty()) return piece.has_value();
    if (pair.request.refused) return swallow(pair, piece->size());
    std::size_t body_at = 0;
    std::optional<std::uint64_t> left;
    {
      const std::lock_guard lock(mutex_);
      if (piece->starts_with("POST ") || piece->starts_with("GET ")) pair.request = {};
      if (piece->starts_with("PUT ")) {
        body_at = piece->find("\r\n\r\n") + 4;
        const std::string head = piece->substr(0, body_at);
        pair.request = {puts_.size(), {}};
        puts_.push_back({head, 0, std::chrono::steady_clock::now()});
        if (refusals_ > 0 && body_length(head) > 0) {
          --refusals_;
          pair.request.refused = body_length(head);
        }
      }
      if (!pair.request.put) return pair.server.send(*piece);
      if (pair.request.refused) {
        if (puts_.back().head.find("100-continue") != std::string::npos)
          pair.client.send("HTTP/1.1 100 Continue\r\n\r\n");
        return swallow_locked(pair, piece->size() - body_at);
      }
      if (body_at < piece->size() && flip_bit_.exchange(false)) (*piece)[piece->size() - 1] ^= 1;
      std::uint64_t &passed = puts_[*pair.request.put].body_bytes;
      if (cut_after_) {
        left = *cut_after_ - passed;
        if (*left <= piece->size() - body_at) {
          piece->resize(body_at + static_cast<std::size_t>(*left));
          cut_after_.reset();
        } else {
          left.reset();
        }
      }
      passed += piece->size() - body_at;
    }
    if (!pair.server.send(*piece)) return false;
    if (!left) return true;
    pair.server.finish_sending();
    pair.server.ends(kRawPatience);  // it has read everything
    pair.client.reset();
    return false;
  }

  static std::uint64_t body_length(const std::string &head) {
    const std::string name = "\r\nContent-Length: ";
    const auto at = head.find(name);
    return at == std::string::npos ? 0 : std::stoull(head.substr(at + name.size()));
  }

  bool swallow(Pair &pair, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return swallow_locked(pair, bytes);
  }
  bool swallow_locked(Pair &pair, std::uint64_t bytes) {
    std::uint64_t &come = puts_[*pair.request.put].body_bytes;
    come += bytes;
    if (come < *pair.request.refused) return true;
    pair.client.send("HTTP/1.1 503 Slow Down\r\nRetry-After: " + std::to_string(retry_after_.count()) +
                     "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return false;
  }

  bool pass_answer(Pair &pair) {
    const auto piece = take(pair.server);
    if (!piece) return false;
    if (pair.request.put && piece->starts_with("HTTP/1.1 200") && lose_answer_.exchange(false)) {
      pair.client.reset();
      return false;
    }
    return pair.client.send(*piece);
  }

  const std::uint16_t upstream_;
  RawListener listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> lose_answer_ = false;
  std::atomic<bool> flip_bit_ = false;
  mutable std::mutex mutex_;
  std::optional<std::uint64_t> cut_after_;  // guarded by mutex_
  std::vector<Put> puts_;                   // guarded by mutex_
  int refusals_ = 0;                        // guarded by mutex_
  std::chrono::seconds retry_after_{0};     // guarded by mutex_
  std::thread thread_;
};

}  // namespace parsyn::test
