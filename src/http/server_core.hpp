// What the connections of one server share: its threads, its TLS settings, its routes and its limits.
//
// Owned by the server and by every open connection, so that the I/O context outlives the last socket.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "http/http_server.hpp"
#include "http/router.hpp"
#include "system/thread_pool.hpp"

namespace parsyn::http {

class ServerConnection;

class ServerCore : public std::enable_shared_from_this<ServerCore> {
 public:
  /// Listens. Throws Error as HttpServer's constructor.
  ServerCore(const HttpServerOptions &options, std::vector<Route> routes);

  void start();
  /// Called from one of the server's own threads, it only begins.
  void stop();

  const HttpServerOptions &options() const { return options_; }
  const Router &router() const { return router_; }
  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

  bool stopping() const;
  /// Runs `work` on the pool. False, and `work` is not run, once the server has stopped.
  bool post(HandlerPool pool, std::function<void()> work);
  /// As post, and on the caller's thread once the server has stopped.
  void run_callback(HandlerPool pool, std::function<void()> callback);
  void remove(const std::shared_ptr<ServerConnection> &connection);
  void log(LogLevel level, std::string_view id, std::string text) const;
  /// Within a catch, the last one of a thread.
  void log_exception(std::string_view id, std::string_view what) const noexcept;

 private:
  void open_tls();
  void listen();
  void run_io();
  void accept();
  void on_accepted(std::uint64_t chain, const boost::system::error_code &error,
                   boost::asio::ip::tcp::socket socket);
  void admit(boost::asio::ip::tcp::socket socket);
  void wait_for_connections(std::chrono::steady_clock::time_point until);
  void stop_connections(std::chrono::milliseconds patience);

  const HttpServerOptions options_;
  const Router router_;
  boost::asio::io_context io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::optional<boost::asio::ssl::context> tls_;
  std::vector<boost::asio::any_io_executor> strands_;  // of the connections
  std::size_t next_strand_ = 0;                        // used on the acceptor's strand
  boost::asio::ip::tcp::acceptor acceptor_;            // used on its own strand
  boost::asio::steady_timer accept_timer_;             // used on the acceptor's strand
  std::uint64_t accept_chain_ = 0;                     // used on the acceptor's strand
  bool accept_paused_ = false;                         // used on the acceptor's strand
  boost::asio::ip::tcp::endpoint endpoint_;
  std::vector<std::thread> io_threads_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  struct Pools {
    std::unique_ptr<system::ThreadPool> general;
    std::unique_ptr<system::ThreadPool> reserved;  // null: no route names it
  };
  Pools pools_;                                                             // guarded by mutex_
  std::unordered_set<std::shared_ptr<ServerConnection>> connections_;       // guarded by mutex_
  enum class Phase { running, stopping, stopped } phase_ = Phase::running;  // guarded by mutex_
  bool finishing_ = false;  // guarded by mutex_: some thread joins
};

}  // namespace parsyn::http
