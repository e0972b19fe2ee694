// A middlebox on loopback: passes TCP on, and resets what nobody has used for a while.
#pragma once

#include <atomic>
#include <list>
#include <vector>

#include "support/raw_socket.hpp"

namespace parsyn::test {

class IdleCuttingProxy {
 public:
  /// Passes on to `upstream`; connections without a byte for longer than `idle_max` are reset on both sides.
  IdleCuttingProxy(std::uint16_t upstream, std::chrono::milliseconds idle_max)
      : upstream_(upstream), idle_max_(idle_max), thread_([this] { run(); }) {}
  ~IdleCuttingProxy() {
    stopping_ = true;
    thread_.join();
  }
  IdleCuttingProxy(const IdleCuttingProxy &) = delete;
  IdleCuttingProxy &operator=(const IdleCuttingProxy &) = delete;

  std::string url() const { return listener_.url(); }
  /// Connections that were reset so far.
  int cuts() const { return cuts_; }

 private:
  struct Pair {
    RawConnection client;
    RawConnection server;
    std::chrono::steady_clock::time_point used = std::chrono::steady_clock::now();
  };

  void run() {
    std::list<Pair> pairs;
    while (!stopping_) {
      std::vector<pollfd> polled{{listener_.descriptor(), POLLIN, 0}};
      for (const Pair &pair : pairs) {
        polled.push_back({pair.client.descriptor(), POLLIN, 0});
        polled.push_back({pair.server.descriptor(), POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), 10);
      std::size_t index = 1;
      for (auto pair = pairs.begin(); pair != pairs.end();) {
        const bool client_has = polled[index++].revents != 0;
        const bool server_has = polled[index++].revents != 0;
        const bool whole = (!client_has || pass(pair->client, pair->server)) &&
                           (!server_has || pass(pair->server, pair->client));
        const auto now = std::chrono::steady_clock::now();
        if (client_has || server_has) pair->used = now;
        const bool idle = now - pair->used > idle_max_;
        if (idle) {
          ++cuts_;
          pair->client.reset();
          pair->server.reset();
        }
        pair = whole && !idle ? std::next(pair) : pairs.erase(pair);
      }
      if (polled[0].revents != 0) accept_one(pairs);
    }
  }

  void accept_one(std::list<Pair> &pairs) {
    RawConnection client = listener_.accept();
    try {
      pairs.push_back({std::move(client), RawConnection(upstream_)});
    } catch (const std::exception &) {
      // Nobody listens upstream: the client sees its connection end.
    }
  }

  /// False when the connection has ended.
  static bool pass(RawConnection &from, RawConnection &to) {
    char buffer[65536];
    const ssize_t got = ::recv(from.descriptor(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    return got > 0 && to.send(std::string_view(buffer, static_cast<std::size_t>(got)));
  }

  const std::uint16_t upstream_;
  const std::chrono::milliseconds idle_max_;
  RawListener listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> cuts_ = 0;
  std::thread thread_;
};

}  // namespace parsyn::test
