// The handles of cURL that requests are made with, one after the other, on connections that stay open between
// them.
#pragma once

#include <curl/curl.h>

#include <string>

namespace parsyn::http {

/// An easy handle in a multi handle of its own, whose connection cache outlives each request.
class CurlHandles {
 public:
  CurlHandles();
  ~CurlHandles();
  CurlHandles(const CurlHandles &) = delete;
  CurlHandles &operator=(const CurlHandles &) = delete;

  CURL *easy() const { return easy_; }
  CURLM *multi() const { return multi_; }
  /// Any thread: ends a wait that runs, or the next one.
  void wake() const;

  /// All options of the last request are gone; the connections stay.
  void reset();
  /// What lay unread in the last socket that was closed since reset(): the answer of a peer that refused a
  /// body and closed while it was being sent. cURL gives up at the failed send, and would throw it away.
  const std::string &unread() const { return unread_; }

 private:
  static int on_close_socket(void *self, curl_socket_t socket);

  CURL *easy_ = nullptr;
  CURLM *multi_ = nullptr;
  std::string unread_;
};

}  // namespace parsyn::http
