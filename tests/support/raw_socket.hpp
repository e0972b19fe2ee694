// TCP on loopback by hand, for what a well-behaved client or server would not send. Every wait has an end.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace parsyn::test {

inline constexpr std::chrono::milliseconds kRawPatience{10'000};

class RawConnection {
 public:
  explicit RawConnection(int descriptor) : descriptor_(descriptor) {}
  explicit RawConnection(std::uint16_t port) : RawConnection(new_socket()) { connect(port); }
  ~RawConnection() { close(); }
  RawConnection(RawConnection &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  RawConnection &operator=(RawConnection &&) = delete;

  /// An unconnected one.
  static int new_socket() {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw std::runtime_error("no socket");
    return descriptor;
  }

  void connect(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(descriptor_, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  int descriptor() const { return descriptor_; }

  /// False when the peer is gone, or takes nothing for `patience`.
  bool send(std::string_view bytes, std::chrono::milliseconds patience = kRawPatience) {
    while (!bytes.empty()) {
      if (!ready(POLLOUT, patience)) return false;
      const ssize_t put = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (put < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
  }

  /// What comes next; empty at the end, at an error, or when nothing comes for `patience`.
  std::string receive(std::chrono::milliseconds patience = kRawPatience) {
    char buffer[65536];
    if (!ready(POLLIN, patience)) return {};
    const ssize_t got = ::recv(descriptor_, buffer, sizeof buffer, MSG_DONTWAIT);
    return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
  }

  /// Everything up to the end of the connection.
  std::string receive_all(std::chrono::milliseconds patience = kRawPatience) {
    std::string all;
    for (;;) {
      const std::string piece = receive(patience);
      if (piece.empty()) return all;
      all += piece;
    }
  }

  /// Up to and with `mark`, and what came in the same piece behind it.
  std::string receive_until(std::string_view mark) {
    std::string all;
    while (all.find(mark) == std::string::npos) {
      const std::string piece = receive();
      if (piece.empty()) break;
      all += piece;
    }
    return all;
  }

  /// Whether the peer ends the connection within `patience`; what it still sends is thrown away.
  bool ends(std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() <= 0 || !ready(POLLIN, left)) return false;
      char buffer[65536];
      const ssize_t got = ::recv(descriptor_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
    }
  }

  void finish_sending() { ::shutdown(descriptor_, SHUT_WR); }

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  /// Closes with a reset, as a process that dies with unread bytes does.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

 private:
  bool ready(short events, std::chrono::milliseconds patience) {
    pollfd wait{descriptor_, events, 0};
    return ::poll(&wait, 1, static_cast<int>(patience.count())) == 1;
  }

  int descriptor_;
};

/// A listening socket on a free port.
class RawListener {
 public:
  RawListener() : descriptor_(RawConnection::new_socket()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(descriptor_, reinterpret_cast<const sockaddr *>(&address), size) != 0 ||
        ::listen(descriptor_, 64) != 0 ||
        ::getsockname(descriptor_, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
  }
  ~RawListener() { ::close(descriptor_); }
  RawListener(const RawListener &) = delete;
  RawListener &operator=(const RawListener &) = delete;

  int descriptor() const { return descriptor_; }
  std::uint16_t port() const { return port_; }
  std::string url(const std::string &scheme = "http") const {
    return scheme + "://127.0.0.1:" + std::to_string(port_);
  }

  RawConnection accept() {
    pollfd wait{descriptor_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(kRawPatience.count())) != 1)
      throw std::runtime_error("nobody connected");
    const int connection = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) throw std::runtime_error("cannot accept");
    return RawConnection(connection);
  }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

/// A server of one connection, played by `play` on a thread of its own.
class RawServer {
 public:
  explicit RawServer(std::function<void(RawConnection &)> play)
      : thread_([this, play = std::move(play)] {
          try {
            RawConnection connection = listener_.accept();
            play(connection);
          } catch (const std::exception &) {
            // The client's side of the test sees it.
          }
        }) {}
  ~RawServer() { thread_.join(); }
  RawServer(const RawServer &) = delete;
  RawServer &operator=(const RawServer &) = delete;

  std::string url(const std::string &path = "/", const std::string &scheme = "http") const {
    return listener_.url(scheme) + path;
  }

 private:
  RawListener listener_;
  std::thread thread_;
};

}  // namespace parsyn::test
