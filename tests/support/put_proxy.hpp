// A middlebox on loopback that passes TCP on, counts what the bodies of PUT requests weigh, and spoils the
// next one as a test wants it.
#pragma once

#include <atomic>
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
  /// One bit of the next PUT's body is flipped.
  void flip_bit() { flip_bit_ = true; }

  /// All so far.
  std::vector<Put> puts() const {
    const std::lock_guard lock(mutex_);
    return puts_;
  }

 private:
  struct Pair {
    RawConnection client;
    RawConnection server;
    std::optional<std::size_t> put;  // the request under way is this one of puts_
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
    std::size_t body_at = 0;
    std::optional<std::uint64_t> left;
    {
      const std::lock_guard lock(mutex_);
      if (piece->starts_with("POST ") || piece->starts_with("GET ")) pair.put.reset();
      if (piece->starts_with("PUT ")) {
        body_at = piece->find("\r\n\r\n") + 4;
        pair.put = puts_.size();
        puts_.push_back({piece->substr(0, body_at), 0});
      }
      if (!pair.put) return pair.server.send(*piece);
      if (body_at < piece->size() && flip_bit_.exchange(false)) (*piece)[piece->size() - 1] ^= 1;
      std::uint64_t &passed = puts_[*pair.put].body_bytes;
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

  bool pass_answer(Pair &pair) {
    const auto piece = take(pair.server);
    if (!piece) return false;
    if (pair.put && piece->starts_with("HTTP/1.1 200") && lose_answer_.exchange(false)) {
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
  std::thread thread_;
};

}  // namespace parsyn::test
