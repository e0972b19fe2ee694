// A connection's bytes, plain or TLS, under one type: the session above it is written, and compiled, once.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <string_view>
#include <utility>

namespace parsyn::http {

/// Runs on its socket's executor, which is a strand. At most one read and one write at a time.
class ServerStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  /// `tls` null: plain. It must outlive the stream.
  ServerStream(Socket socket, boost::asio::ssl::context *tls) : socket_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<boost::asio::ssl::stream<Socket &>>(socket_, *tls);
  }

  Socket &socket() { return socket_; }
  bool is_tls() const { return tls_ != nullptr; }

  /// A peer whose machine vanished sends nothing, not even an end: parked polls learn of it by the keep-alive
  /// probes.
  void set_options() {
    const int descriptor = socket_.native_handle();
    const auto set = [&](int level, int option, int value) {
      ::setsockopt(descriptor, level, option, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  }

  template <typename Handler>
  void async_handshake(Handler handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::move(handler));
  }

  template <typename Handler>
  void async_read_some(boost::asio::mutable_buffer buffer, Handler handler) {
    if (tls_) {
      tls_->async_read_some(buffer, std::move(handler));
    } else {
      socket_.async_read_some(buffer, std::move(handler));
    }
  }

  template <typename Handler>
  void async_write_some(std::string_view bytes, Handler handler) {
    const auto buffer = boost::asio::buffer(bytes.data(), bytes.size());
    if (tls_) {
      tls_->async_write_some(buffer, std::move(handler));
    } else {
      socket_.async_write_some(buffer, std::move(handler));
    }
  }

  template <typename Handler>
  void async_tls_shutdown(Handler handler) {
    tls_->async_shutdown(std::move(handler));
  }

  /// Bytes that the operating system has taken and the peer has not acknowledged.
  int unacknowledged_bytes() {
    int bytes = 0;
    return ::ioctl(socket_.native_handle(), TIOCOUTQ, &bytes) == 0 ? bytes : 0;
  }

  void close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<Socket &>> tls_;
};

}  // namespace parsyn::http
