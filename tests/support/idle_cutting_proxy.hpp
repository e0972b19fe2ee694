// A middlebox on loopback: passes TCP on, and resets what nobody has used for a while.
#pragma once

#include <atomic>
#include <optional>

#include "support/pass_connections.hpp"

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
    std::optional<std::chrono::steady_clock::time_point> used;  // nothing: it has just come
  };

  void run() {
    pass_connections<Pair>(listener_, upstream_, stopping_,
                           [this](Pair &pair, bool client_has, bool server_has) {
                             const bool whole = (!client_has || pass(pair.client, pair.server)) &&
                                                (!server_has || pass(pair.server, pair.client));
                             const auto now = std::chrono::steady_clock::now();
                             if (client_has || server_has || !pair.used) pair.used = now;
                             const bool idle = now - *pair.used > idle_max_;
                             if (idle) {
                               ++cuts_;
                               pair.client.reset();
                               pair.server.reset();
                             }
                             return whole && !idle;
                           });
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
