#include "http/curl_handles.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <new>

namespace parsyn::http {
namespace {

constexpr std::size_t kUnreadBytesMax = 64 << 10;

void start_curl() {
  // Not thread-safe in every build of cURL; the host may have done it before, which does no harm.
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

}  // namespace

CurlHandles::CurlHandles() {
  start_curl();
  easy_ = curl_easy_init();
  multi_ = curl_multi_init();
  if (!easy_ || !multi_) {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
    throw std::bad_alloc();
  }
}

CurlHandles::~CurlHandles() {
  // However it is told to leave signals alone, cURL ignores SIGPIPE in the whole process while it closes a
  // multi handle's connections, and then puts back what it found. Two at once would put back each other's.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  curl_easy_cleanup(easy_);
  curl_multi_cleanup(multi_);
}

void CurlHandles::wake() const { curl_multi_wakeup(multi_); }

void CurlHandles::reset() {
  curl_easy_reset(easy_);
  unread_.clear();
  // A connection keeps this pair for as long as it lives, so it names the handles, not the request.
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETFUNCTION, &CurlHandles::on_close_socket);
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETDATA, this);
}

int CurlHandles::on_close_socket(void *self_pointer, curl_socket_t socket) {
  auto *self = static_cast<CurlHandles *>(self_pointer);
  try {
    self->unread_.clear();
    std::array<char, 4096> buffer{};
    while (self->unread_.size() < kUnreadBytesMax) {
      const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got <= 0) break;
      self->unread_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  } catch (const std::bad_alloc &) {
    self->unread_.clear();
  }
  return ::close(socket);
}

}  // namespace parsyn::http
