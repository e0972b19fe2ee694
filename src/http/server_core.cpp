#include "http/server_core.hpp"

#include <csignal>

#include <algorithm>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <new>
#include <utility>

#include "http/server_connection.hpp"
#include "system/log_exception.hpp"
#include "system/write_log.hpp"

namespace parsyn::http {
namespace {

/// Connections over the limit that still get their 503; more are closed without a word.
constexpr std::size_t kRefusedConnectionsMax = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kAnswerPatience{1'000};

/// Connections share them, so that the I/O threads are all busy when many connections are. All are made at
/// once: Boost 1.81 crashes where there is no memory for one.
constexpr unsigned kStrandsPerThread = 8;

thread_local const ServerCore *server_of_this_thread = nullptr;

/// The host's signals are for the host's threads: threads started meanwhile get none of them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ServerCore::ServerCore(const HttpServerOptions &options, std::vector<Route> routes)
    : options_(options),
      router_(std::move(routes)),
      acceptor_(boost::asio::make_strand(io_)),
      accept_timer_(acceptor_.get_executor()) {
  if (options_.io_threads == 0 || options_.handler_threads == 0) {
    throw Error(ErrorCode::invalid_argument,
                "an HTTP server needs at least one I/O thread and one handler thread");
  }
  if (options_.reserved_threads == 0 && router_.uses(HandlerPool::reserved)) {
    throw Error(ErrorCode::invalid_argument,
                "an HTTP server with a route of the reserved pool needs at least one thread for it");
  }
  for (unsigned i = 0; i < kStrandsPerThread * options_.io_threads; ++i)
    strands_.emplace_back(boost::asio::make_strand(io_));
  if (!options_.certificate_file.empty()) open_tls();
  listen();
}

void ServerCore::open_tls() {
  namespace ssl = boost::asio::ssl;
  tls_.emplace(ssl::context::tls_server);
  SSL_CTX *handle = tls_->native_handle();
  SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
  SSL_CTX_set_options(handle,
                      SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  static constexpr unsigned char kSessionContext[] = "parsyn";
  SSL_CTX_set_session_id_context(handle, kSessionContext, sizeof kSessionContext - 1);
  const auto use = [](const std::string &what, const std::filesystem::path &file, const auto &action) {
    boost::system::error_code error;
    action(error);
    if (error) {
      throw Error(ErrorCode::invalid_argument,
                  "cannot use the " + what + " " + file.string() + ": " + error.message());
    }
  };
  boost::system::error_code ignored;
  // Without this, OpenSSL would ask for an encrypted key's password on the host's terminal.
  tls_->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); },
                              ignored);
  use("certificate", options_.certificate_file,
      [&](auto &error) { tls_->use_certificate_chain_file(options_.certificate_file.string(), error); });
  use("private key", options_.private_key_file, [&](auto &error) {
    tls_->use_private_key_file(options_.private_key_file.string(), ssl::context::pem, error);
  });
  if (options_.client_ca_file.empty()) return;
  use("authority of client certificates", options_.client_ca_file,
      [&](auto &error) { tls_->load_verify_file(options_.client_ca_file.string(), error); });
  tls_->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, ignored);
}

void ServerCore::listen() {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(options_.address, error);
  if (error) {
    throw Error(ErrorCode::invalid_argument,
                "cannot listen on '" + options_.address +
                    "': it is not a numeric IP address, such as 127.0.0.1 or ::");
  }
  const boost::asio::ip::tcp::endpoint wanted(address, options_.port);
  acceptor_.open(wanted.protocol(), error);
  // A server that starts again must not wait for its old connections' last minutes.
  if (!error) acceptor_.set_option(boost::asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  if (!error) endpoint_ = acceptor_.local_endpoint(error);
  if (error) {
    throw Error(ErrorCode::unavailable, "cannot listen on " + options_.address + " port " +
                                            std::to_string(options_.port) + ": " + error.message() +
                                            "; choose another address or port, or stop what uses it");
  }
}

void ServerCore::start() {
  const SignalsBlocked blocked;
  work_.emplace(io_.get_executor());
  {
    const std::lock_guard lock(mutex_);
    const auto pool_of = [&](unsigned threads) {
      return std::make_unique<system::ThreadPool>(threads, system::system_runtime(), options_.log);
    };
    pools_.general = pool_of(options_.handler_threads);
    if (options_.reserved_threads > 0) pools_.reserved = pool_of(options_.reserved_threads);
  }
  for (unsigned i = 0; i < options_.io_threads; ++i) {
    io_threads_.emplace_back([this] { run_io(); });
  }
  boost::asio::post(acceptor_.get_executor(), [self = shared_from_this()] { self->accept(); });
}

// Most likely there is no memory, for one turn. What a connection's turn throws ends that connection; what
// arrives here is the acceptor's, or Asio's own, and may have cost the accept that was under way: another
// chain of them begins, and what is left of the last one ends.
void ServerCore::run_io() {
  server_of_this_thread = this;
  for (bool failed = false;;) {
    try {
      if (failed) {
        std::this_thread::sleep_for(kAcceptPause);
        boost::asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
          ++self->accept_chain_;
          self->accept();
        });
        failed = false;
      }
      io_.run();
      return;
    } catch (...) {
      log_exception("http.turn_failed", "a turn of the server");
      failed = true;
    }
  }
}

void ServerCore::accept() {
  if (!acceptor_.is_open()) return;
  using Socket = boost::asio::ip::tcp::socket;
  acceptor_.async_accept(
      strands_[next_strand_++ % strands_.size()],
      boost::asio::bind_executor(acceptor_.get_executor(),
                                 [self = shared_from_this(), chain = accept_chain_](
                                     const boost::system::error_code &error, Socket socket) {
                                   self->on_accepted(chain, error, std::move(socket));
                                 }));
}

void ServerCore::on_accepted(std::uint64_t chain, const boost::system::error_code &error,
                             boost::asio::ip::tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (!error || error == boost::asio::error::connection_aborted) {
    accept_paused_ = false;
    try {
      if (!error) admit(std::move(socket));
    } catch (...) {
      log_exception("http.connection_failed", "taking a new connection");
    }
    if (chain == accept_chain_) accept();
    return;
  }
  // Most likely out of file descriptors: the connection stays in the queue, and asking again at once would
  // spin.
  if (!std::exchange(accept_paused_, true)) {
    log(LogLevel::warning, "http.accept_paused", "cannot take a new connection: " + error.message());
  }
  if (chain != accept_chain_) return;
  accept_timer_.expires_after(kAcceptPause);
  accept_timer_.async_wait([self = shared_from_this(), chain](const boost::system::error_code &) {
    if (chain == self->accept_chain_) self->accept();
  });
}

void ServerCore::admit(boost::asio::ip::tcp::socket socket) {
  std::shared_ptr<ServerConnection> connection;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t open = connections_.size();
    if (phase_ != Phase::running || open >= options_.connections_max + kRefusedConnectionsMax) return;
    const bool overloaded = open >= options_.connections_max;
    connection = std::make_shared<ServerConnection>(shared_from_this(), std::move(socket),
                                                    tls_ ? &*tls_ : nullptr, overloaded);
    connections_.insert(connection);
  }
  try {
    connection->start();
  } catch (...) {
    remove(connection);
    throw;
  }
}

bool ServerCore::stopping() const {
  const std::lock_guard lock(mutex_);
  return phase_ != Phase::running;
}

bool ServerCore::post(HandlerPool pool, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  const auto &threads = pool == HandlerPool::reserved ? pools_.reserved : pools_.general;
  if (!threads) return false;
  threads->post([this, work = std::move(work)]() mutable {
    server_of_this_thread = this;
    work();
  });
  return true;
}

void ServerCore::run_callback(HandlerPool pool, std::function<void()> callback) {
  const auto guarded = [this, callback = std::move(callback)] {
    try {
      callback();
    } catch (...) {
      log_exception("http.callback_failed", "a callback");
    }
  };
  bool posted = false;
  try {
    posted = post(pool, guarded);
  } catch (const std::bad_alloc &) {
    // Somebody may wait for it: late is worse than here.
  }
  if (!posted) guarded();
}

void ServerCore::remove(const std::shared_ptr<ServerConnection> &connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  if (connections_.empty()) changed_.notify_all();
}

void ServerCore::log(LogLevel level, std::string_view id, std::string text) const {
  system::write_log(options_.log, {level, id, std::move(text), {}});
}

void ServerCore::log_exception(std::string_view id, std::string_view what) const noexcept {
  system::log_exception(options_.log, id, what);
}

void ServerCore::wait_for_connections(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [this] { return connections_.empty(); });
}

void ServerCore::stop_connections(std::chrono::milliseconds patience) {
  std::vector<std::shared_ptr<ServerConnection>> open;
  {
    const std::lock_guard lock(mutex_);
    open.assign(connections_.begin(), connections_.end());
  }
  for (const auto &connection : open) connection->stop(patience);
}

void ServerCore::stop() {
  bool begin = false;
  bool finish = false;
  const bool on_own_thread = server_of_this_thread == this;
  {
    const std::lock_guard lock(mutex_);
    begin = phase_ == Phase::running;
    if (begin) phase_ = Phase::stopping;
    if (!on_own_thread) finish = !std::exchange(finishing_, true);
  }
  if (begin) {
    boost::asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
      boost::system::error_code ignored;
      self->acceptor_.close(ignored);
      self->accept_timer_.cancel();
    });
    stop_connections(kAnswerPatience);
  }
  if (on_own_thread) return;
  if (!finish) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return phase_ == Phase::stopped; });
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  wait_for_connections(now + 2 * kAnswerPatience);
  stop_connections(std::chrono::milliseconds(0));
  wait_for_connections(now + 4 * kAnswerPatience);
  Pools pools;
  {
    const std::lock_guard lock(mutex_);
    pools = std::move(pools_);
    pools_ = {};
  }
  pools = {};     // runs what is queued, and waits for the handlers that run
  work_.reset();  // the I/O threads end when the last closed socket has said so
  for (auto &thread : io_threads_) thread.join();
  const std::lock_guard lock(mutex_);
  phase_ = Phase::stopped;
  changed_.notify_all();
}

}  // namespace parsyn::http
