// One request of the client, on handles of cURL that somebody else keeps.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string_view>

#include "http/answer_receiver.hpp"
#include "http/curl_handles.hpp"
#include "http/http_client.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"

namespace parsyn::http {

class ClientTransfer {
 public:
  /// All arguments must outlive it. Throws Error(invalid_argument, io).
  ClientTransfer(const HttpClientOptions &options, const HttpClientRequest &request, CurlHandles &handles,
                 const std::atomic<bool> &interrupted);
  ~ClientTransfer();
  ClientTransfer(const ClientTransfer &) = delete;
  ClientTransfer &operator=(const ClientTransfer &) = delete;

  HttpClientResponse run();

 private:
  using Clock = std::chrono::steady_clock;

  void set_options();
  void set_method_and_body();
  void set_headers();
  void add_header(const std::string &line);
  void set_tls();

  CURLcode loop();
  bool take_late_answer();
  void check_progress();
  std::chrono::milliseconds idle_limit() const;
  std::uint64_t sent() const;
  void report_progress();

  // What cURL calls; an exception is kept, and ends the transfer.
  static int on_connected(void *self, char *, char *, int, int);
  static std::size_t on_read(char *out, std::size_t size, std::size_t count, void *self);
  static int on_seek(void *self, curl_off_t offset, int origin);
  static std::size_t on_header(char *data, std::size_t size, std::size_t count, void *self);
  static std::size_t on_write(char *data, std::size_t size, std::size_t count, void *self);
  template <typename Action>
  bool guarded(Action action);

  [[noreturn]] void fail(CURLcode code) const;

  const HttpClientOptions &options_;
  const HttpClientRequest &request_;
  CurlHandles &handles_;
  const std::atomic<bool> &interrupted_;
  CURL *const easy_;
  curl_slist *header_list_ = nullptr;
  char error_text_[CURL_ERROR_SIZE] = {};

  std::unique_ptr<system::FileSource> body_source_;
  std::uint64_t body_size_ = 0;
  std::uint64_t body_at_ = 0;

  AnswerReceiver answer_;

  bool connected_ = false;
  Clock::time_point started_;
  Clock::time_point last_progress_;
  std::uint64_t progress_mark_ = 0;  // bytes either way at last_progress_
  int unacknowledged_ = 0;           // by the peer, at the last look
  Clock::time_point reported_;
  std::exception_ptr failure_;
};

}  // namespace parsyn::http
