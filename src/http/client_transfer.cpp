#include "http/client_transfer.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "http/client_url.hpp"
#include "http/text.hpp"
#include "text/utf8.hpp"

namespace parsyn::http {
namespace {

constexpr long kBufferBytes = 512L << 10;
/// A body over this is announced with Expect: 100-continue, so that a refusal comes before it.
constexpr std::uint64_t kAskFirstBytes = 1 << 20;
constexpr std::chrono::milliseconds kReportInterval{100};
constexpr std::chrono::milliseconds kPollMax{1'000};

template <typename Value>
void set(CURL *easy, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code != CURLE_OK) {
    throw Error(ErrorCode::internal,
                "cURL refused its option " + std::to_string(option) + ": " + curl_easy_strerror(code));
  }
}

bool is_token(std::string_view name) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

/// The host's own list of names that need no proxy, and this machine, which never does.
std::string names_without_proxy() {
  for (const char *variable : {"no_proxy", "NO_PROXY"}) {
    if (const char *value = std::getenv(variable); value && *value) {
      return std::string_view(value) == "*" ? "*" : std::string(value) + ",localhost,127.0.0.1,::1";
    }
  }
  return "localhost,127.0.0.1,::1";
}

}  // namespace

ClientTransfer::ClientTransfer(const HttpClientOptions &options, const HttpClientRequest &request,
                               CurlHandles &handles, const std::atomic<bool> &interrupted)
    : options_(options),
      request_(request),
      handles_(handles),
      interrupted_(interrupted),
      easy_(handles.easy()),
      answer_(request) {
  check_url(request.url);
  if (!is_token(request.method)) {
    throw Error(ErrorCode::invalid_argument,
                "'" + text::printable(request.method, 50) + "' is not an HTTP method");
  }
  handles_.reset();
  try {
    set_options();
    set_method_and_body();
    set_headers();
    set_tls();
  } catch (...) {
    curl_slist_free_all(header_list_);
    throw;
  }
}

ClientTransfer::~ClientTransfer() {
  curl_multi_remove_handle(handles_.multi(), easy_);
  curl_easy_reset(easy_);
  curl_slist_free_all(header_list_);
}

void ClientTransfer::set_options() {
  set(easy_, CURLOPT_URL, request_.url.c_str());
  set(easy_, CURLOPT_PATH_AS_IS, 1L);
  set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy_, CURLOPT_HTTP_CONTENT_DECODING, 0L);
  set(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy_, CURLOPT_NOPROXY, names_without_proxy().c_str());
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  // A name look-up cannot be interrupted: leave its thread to end by itself instead of waiting for it.
  set(easy_, CURLOPT_QUICK_EXIT, 1L);
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  set(easy_, CURLOPT_BUFFERSIZE, kBufferBytes);
  set(easy_, CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
  set(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy_, CURLOPT_TCP_KEEPIDLE, 30L);
  set(easy_, CURLOPT_TCP_KEEPINTVL, 10L);
  // Shorter than parsyn's own server keeps one, so that a request seldom meets a connection that is being
  // closed.
  set(easy_, CURLOPT_MAXAGE_CONN, 60L);
  set(easy_, CURLOPT_ERRORBUFFER, &error_text_[0]);
  set(easy_, CURLOPT_PREREQFUNCTION, &ClientTransfer::on_connected);
  set(easy_, CURLOPT_PREREQDATA, this);
  set(easy_, CURLOPT_HEADERFUNCTION, &ClientTransfer::on_header);
  set(easy_, CURLOPT_HEADERDATA, this);
  set(easy_, CURLOPT_WRITEFUNCTION, &ClientTransfer::on_write);
  set(easy_, CURLOPT_WRITEDATA, this);
}

void ClientTransfer::set_method_and_body() {
  if (request_.body_file) {
    body_source_ = std::make_unique<system::FileSource>(*request_.body_file);
    if (body_source_->size() < request_.body_offset) {
      throw Error(ErrorCode::invalid_argument,
                  request_.body_file->string() + " has " + std::to_string(body_source_->size()) +
                      " bytes; it cannot be sent from " + std::to_string(request_.body_offset));
    }
    body_size_ = body_source_->size() - request_.body_offset;
  } else {
    body_size_ = request_.body.size();
  }
  const std::string &method = request_.method;
  const bool sends =
      body_size_ > 0 || body_source_ || method == "POST" || method == "PUT" || method == "PATCH";
  if (method == "HEAD") {
    set(easy_, CURLOPT_NOBODY, 1L);
    return;
  }
  if (sends) {
    set(easy_, CURLOPT_UPLOAD, 1L);
    set(easy_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_size_));
    set(easy_, CURLOPT_READFUNCTION, &ClientTransfer::on_read);
    set(easy_, CURLOPT_READDATA, this);
    set(easy_, CURLOPT_SEEKFUNCTION, &ClientTransfer::on_seek);
    set(easy_, CURLOPT_SEEKDATA, this);
    // On a kept connection that breaks, cURL would send all of it once more by itself; its sender may know
    // better.
    if (body_source_) set(easy_, CURLOPT_FRESH_CONNECT, 1L);
  } else {
    set(easy_, CURLOPT_HTTPGET, 1L);
  }
  set(easy_, CURLOPT_CUSTOMREQUEST, method.c_str());
}

void ClientTransfer::set_headers() {
  Headers headers = request_.headers;
  headers.emplace("Accept-Encoding", "identity");
  headers.emplace("User-Agent", "parsyn");
  if (request_.output_file && request_.output_offset > 0) {
    headers.emplace("Range", "bytes=" + std::to_string(request_.output_offset) + "-");
  }
  // For PUT, cURL would ask with every body, and a question costs a small one more than the body does.
  if (body_size_ <= kAskFirstBytes && !headers.contains("Expect")) add_header("Expect:");
  for (const auto &[name, value] : headers) {
    const bool one_line = value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos;
    if (!is_token(name) || !one_line) {
      throw Error(ErrorCode::invalid_argument, "the request header '" + text::printable(name, 50) +
                                                   "' has a bad name, or a value of several lines");
    }
    // To cURL, "Name:" takes a header away; "Name;" is one with an empty value.
    add_header(value.empty() ? name + ";" : name + ": " + value);
  }
  set(easy_, CURLOPT_HTTPHEADER, header_list_);
}

void ClientTransfer::add_header(const std::string &line) {
  curl_slist *longer = curl_slist_append(header_list_, line.c_str());
  if (!longer) throw std::bad_alloc();
  header_list_ = longer;
}

void ClientTransfer::set_tls() {
  set(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(easy_, CURLOPT_SSL_VERIFYPEER, 1L);
  set(easy_, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) {
    set(easy_, CURLOPT_CAINFO, options_.ca_file.c_str());
    set(easy_, CURLOPT_CAPATH,
        static_cast<const char *>(nullptr));  // this authority, and not the system's besides
  }
  if (!options_.certificate_file.empty()) {
    set(easy_, CURLOPT_SSLCERT, options_.certificate_file.c_str());
    set(easy_, CURLOPT_SSLKEY, options_.private_key_file.c_str());
    set(easy_, CURLOPT_KEYPASSWD, "");  // an encrypted key fails instead of asking on the host's terminal
  }
}

HttpClientResponse ClientTransfer::run() {
  started_ = last_progress_ = reported_ = Clock::now();
  if (interrupted_) answer_.fail(ErrorCode::cancelled, "the client was interrupted");
  const CURLMcode added = curl_multi_add_handle(handles_.multi(), easy_);
  if (added != CURLM_OK) answer_.fail(ErrorCode::internal, curl_multi_strerror(added));
  const CURLcode code = loop();
  if (failure_) std::rethrow_exception(failure_);
  const bool over = code == CURLE_OK || answer_.ended_by_caller();
  if (!over && !(code == CURLE_SEND_ERROR && take_late_answer())) fail(code);
  return answer_.finish();
}

// Over TLS the bytes that lie unread cannot be told; there it is the peer's duty to let its refusal be read.
bool ClientTransfer::take_late_answer() {
  std::string_view rest = handles_.unread();
  if (answer_.begun() || !rest.starts_with("HTTP/1.")) return false;
  while (!answer_.head_done()) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    answer_.take_header(rest.substr(0, end + 1));
    rest.remove_prefix(end + 1);
  }
  const std::uint64_t length = answer_.content_length().value_or(0);
  if (length > 0) answer_.take_body(rest.substr(0, static_cast<std::size_t>(length)));
  return true;
}

CURLcode ClientTransfer::loop() {
  for (;;) {
    int running = 0;
    const CURLMcode performed = curl_multi_perform(handles_.multi(), &running);
    if (performed != CURLM_OK) answer_.fail(ErrorCode::internal, curl_multi_strerror(performed));
    int left = 0;
    while (const CURLMsg *message = curl_multi_info_read(handles_.multi(), &left)) {
      if (message->msg == CURLMSG_DONE) return message->data.result;
    }
    if (interrupted_) answer_.fail(ErrorCode::cancelled, "the client was interrupted");
    check_progress();
    report_progress();
    const auto wait = std::min({kPollMax, std::max(idle_limit() / 4, std::chrono::milliseconds(1)),
                                request_.progress ? kReportInterval : kPollMax});
    curl_multi_poll(handles_.multi(), nullptr, 0, static_cast<int>(wait.count()), nullptr);
  }
}

std::uint64_t ClientTransfer::sent() const {
  curl_off_t bytes = 0;
  curl_easy_getinfo(easy_, CURLINFO_SIZE_UPLOAD_T, &bytes);
  return static_cast<std::uint64_t>(bytes);
}

std::chrono::milliseconds ClientTransfer::idle_limit() const {
  const auto usual = options_.idle_timeout;
  if (!request_.idle_timeout) return usual;
  const bool peer_thinks = !answer_.begun() && sent() >= body_size_;
  return peer_thinks || request_.on_body ? *request_.idle_timeout : std::min(usual, *request_.idle_timeout);
}

void ClientTransfer::check_progress() {
  const auto now = Clock::now();
  if (!connected_) {
    if (now - started_ > options_.connect_timeout) {
      answer_.fail(ErrorCode::timeout,
                   "no connection within " + std::to_string(options_.connect_timeout.count()) + " ms");
    }
    return;
  }
  const std::uint64_t mark = sent() + answer_.header_bytes() + answer_.body_bytes();
  // Bytes that the system has taken are not yet with the peer: over a slow line their way is progress, too.
  int unacknowledged = 0;
  curl_socket_t socket = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(easy_, CURLINFO_ACTIVESOCKET, &socket) == CURLE_OK && socket != CURL_SOCKET_BAD) {
    if (::ioctl(socket, TIOCOUTQ, &unacknowledged) != 0) unacknowledged = 0;
  }
  if (mark != progress_mark_ || unacknowledged < unacknowledged_) last_progress_ = now;
  progress_mark_ = mark;
  unacknowledged_ = unacknowledged;
  const auto limit = idle_limit();
  if (now - last_progress_ >= limit) {
    answer_.fail(ErrorCode::timeout, "no byte came or went for " + std::to_string(limit.count()) + " ms");
  }
}

void ClientTransfer::report_progress() {
  if (!request_.progress) return;
  const auto now = Clock::now();
  if (now - reported_ < kReportInterval) return;
  reported_ = now;
  if (!request_.progress(sent(), answer_.body_bytes()))
    answer_.fail(ErrorCode::cancelled, "the caller ended it");
}

template <typename Action>
bool ClientTransfer::guarded(Action action) {
  if (interrupted_) return false;
  try {
    action();
    return true;
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }
}

int ClientTransfer::on_connected(void *self_pointer, char *, char *, int, int) {
  auto *self = static_cast<ClientTransfer *>(self_pointer);
  self->connected_ = true;
  self->last_progress_ = Clock::now();
  return self->interrupted_ ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

std::size_t ClientTransfer::on_read(char *out, std::size_t size, std::size_t count, void *self_pointer) {
  auto *self = static_cast<ClientTransfer *>(self_pointer);
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(size * count, self->body_size_ - self->body_at_));
  const bool read = self->guarded([&] {
    if (self->body_source_) {
      self->body_source_->read_at(self->request_.body_offset + self->body_at_,
                                  std::as_writable_bytes(std::span(out, bytes)));
    } else {
      self->request_.body.copy(out, bytes, static_cast<std::size_t>(self->body_at_));
    }
    self->body_at_ += bytes;
  });
  return read ? bytes : CURL_READFUNC_ABORT;
}

int ClientTransfer::on_seek(void *self_pointer, curl_off_t offset, int origin) {
  auto *self = static_cast<ClientTransfer *>(self_pointer);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::uint64_t>(offset) > self->body_size_)
    return CURL_SEEKFUNC_FAIL;
  self->body_at_ = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

std::size_t ClientTransfer::on_header(char *data, std::size_t size, std::size_t count, void *self) {
  auto *transfer = static_cast<ClientTransfer *>(self);
  const std::string_view line(data, size * count);
  return transfer->guarded([&] { transfer->answer_.take_header(line); }) ? size * count : 0;
}

std::size_t ClientTransfer::on_write(char *data, std::size_t size, std::size_t count, void *self) {
  auto *transfer = static_cast<ClientTransfer *>(self);
  const std::string_view piece(data, size * count);
  const bool taken = transfer->guarded([&] { transfer->answer_.take_body(piece); });
  return taken && !transfer->answer_.ended_by_caller() ? size * count : 0;
}

void ClientTransfer::fail(CURLcode code) const {
  const std::string detail = error_text_[0] ? &error_text_[0] : curl_easy_strerror(code);
  const auto says = [&](std::string_view word) { return detail.find(word) != std::string::npos; };
  // OpenSSL's sentence for an alert that the peer sent. In TLS 1.3 it comes after the handshake, as a failed
  // read.
  const bool certificate_refused =
      says("alert") && (says("certificate") || says("unknown ca") || says("access denied"));
  if (certificate_refused) {
    answer_.fail(ErrorCode::unauthorized,
                 std::string("TLS: the peer refused this side's certificate") +
                     (options_.certificate_file.empty() ? ": none was given; set certificate_file" : "") +
                     " (" + detail + ")");
  }
  switch (code) {
    case CURLE_OUT_OF_MEMORY:
      // cURL's word for a line that is longer than its own limit, too.
      if (answer_.begun() && !answer_.head_done())
        answer_.fail(ErrorCode::protocol, "the answer's header is too long");
      throw std::bad_alloc();
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_WRITE_ERROR:
    case CURLE_READ_ERROR:
      if (interrupted_) answer_.fail(ErrorCode::cancelled, "the client was interrupted");
      answer_.fail(ErrorCode::internal, detail);
    case CURLE_URL_MALFORMAT:
      answer_.fail(ErrorCode::invalid_argument, "the URL is not well-formed");
    case CURLE_OPERATION_TIMEDOUT:
      answer_.fail(ErrorCode::timeout,
                   "no connection within " + std::to_string(options_.connect_timeout.count()) + " ms");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      answer_.fail(ErrorCode::protocol, "the peer does not speak HTTP/1.1 (" + detail + ")");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      answer_.fail(ErrorCode::unauthorized, "TLS: the peer's certificate is not accepted (" + detail +
                                                "); check the authority's file, and the name in the URL");
    case CURLE_SSL_CACERT_BADFILE:
      answer_.fail(ErrorCode::unauthorized, "TLS: the authority's file " + options_.ca_file.string() +
                                                " cannot be used (" + detail + ")");
    case CURLE_SSL_CERTPROBLEM:
      answer_.fail(ErrorCode::unauthorized, "TLS: the certificate " + options_.certificate_file.string() +
                                                " or its key cannot be used (" + detail + ")");
    case CURLE_SSL_CONNECT_ERROR:
      if (says("wrong version number") || says("http request") || says("packet length")) {
        answer_.fail(ErrorCode::protocol, "the peer does not speak TLS (" + detail + ")");
      }
      answer_.fail(says("alert") ? ErrorCode::protocol : ErrorCode::unavailable,
                   "TLS: no agreement (" + detail + ")");
    case CURLE_PARTIAL_FILE:
      answer_.fail(ErrorCode::unavailable, "the answer was cut (" + detail + ")");
    default:
      answer_.fail(ErrorCode::unavailable, detail);
  }
}

}  // namespace parsyn::http
