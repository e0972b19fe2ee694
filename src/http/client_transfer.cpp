#include "http/client_transfer.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "http/byte_range.hpp"
#include "http/client_url.hpp"
#include "http/text.hpp"
#include "system/text.hpp"

namespace parsyn::http {
namespace {

constexpr long kBufferBytes = 512L << 10;
constexpr std::uint64_t kAnswerHeaderBytesMax = 256 << 10;
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
      easy_(handles.easy()) {
  check_url(request.url);
  if (!is_token(request.method)) {
    throw Error(ErrorCode::invalid_argument,
                "'" + system::printable(request.method, 50) + "' is not an HTTP method");
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
      throw Error(ErrorCode::invalid_argument, "the request header '" + system::printable(name, 50) +
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
  if (interrupted_) fail(ErrorCode::cancelled, "the client was interrupted");
  const CURLMcode added = curl_multi_add_handle(handles_.multi(), easy_);
  if (added != CURLM_OK) fail(ErrorCode::internal, curl_multi_strerror(added));
  const CURLcode code = loop();
  if (failure_) std::rethrow_exception(failure_);
  if (ended_by_caller_) {
    response_.sha256 = digest_.hex();
    return std::move(response_);
  }
  if (code != CURLE_OK && !(code == CURLE_SEND_ERROR && take_late_answer())) fail(code);
  if (!head_done_) fail(ErrorCode::protocol, "the answer ended within its header");
  check_length();
  if (to_file_) {
    if (!output_)
      output_.emplace(*request_.output_file, response_.status == 206 ? request_.output_offset : 0);
    output_->close();
  }
  response_.sha256 = digest_.hex();
  return std::move(response_);
}

// Over TLS the bytes that lie unread cannot be told; there it is the peer's duty to let its refusal be read.
bool ClientTransfer::take_late_answer() {
  std::string_view rest = handles_.unread();
  if (answer_begun_ || !rest.starts_with("HTTP/1.")) return false;
  while (!head_done_) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    take_header(rest.substr(0, end + 1));
    rest.remove_prefix(end + 1);
  }
  if (content_length_.value_or(0) > 0) take_body(rest.substr(0, static_cast<std::size_t>(*content_length_)));
  return true;
}

CURLcode ClientTransfer::loop() {
  for (;;) {
    int running = 0;
    const CURLMcode performed = curl_multi_perform(handles_.multi(), &running);
    if (performed != CURLM_OK) fail(ErrorCode::internal, curl_multi_strerror(performed));
    int left = 0;
    while (const CURLMsg *message = curl_multi_info_read(handles_.multi(), &left)) {
      if (message->msg == CURLMSG_DONE) return message->data.result;
    }
    if (interrupted_) fail(ErrorCode::cancelled, "the client was interrupted");
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
  const bool peer_thinks = !answer_begun_ && sent() >= body_size_;
  return peer_thinks || request_.on_body ? *request_.idle_timeout : std::min(usual, *request_.idle_timeout);
}

void ClientTransfer::check_progress() {
  const auto now = Clock::now();
  if (!connected_) {
    if (now - started_ > options_.connect_timeout) {
      fail(ErrorCode::timeout,
           "no connection within " + std::to_string(options_.connect_timeout.count()) + " ms");
    }
    return;
  }
  const std::uint64_t mark = sent() + header_bytes_ + response_.body_bytes;
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
    fail(ErrorCode::timeout, "no byte came or went for " + std::to_string(limit.count()) + " ms");
  }
}

void ClientTransfer::report_progress() {
  if (!request_.progress) return;
  const auto now = Clock::now();
  if (now - reported_ < kReportInterval) return;
  reported_ = now;
  if (!request_.progress(sent(), response_.body_bytes)) fail(ErrorCode::cancelled, "the caller ended it");
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
  return transfer->guarded([&] { transfer->take_header(line); }) ? size * count : 0;
}

std::size_t ClientTransfer::on_write(char *data, std::size_t size, std::size_t count, void *self) {
  auto *transfer = static_cast<ClientTransfer *>(self);
  const std::string_view piece(data, size * count);
  const bool taken = transfer->guarded([&] { transfer->take_body(piece); }) && !transfer->ended_by_caller_;
  return taken ? size * count : 0;
}

void ClientTransfer::take_header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kAnswerHeaderBytesMax) {
    fail(ErrorCode::protocol,
         "the answer's header has more than " + std::to_string(kAnswerHeaderBytesMax) + " bytes");
  }
  if (head_done_) return;  // a trailer
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    answer_begun_ = false;
    response_.headers.clear();
    const auto space = line.find(' ');
    const auto status =
        space == std::string_view::npos ? std::nullopt : system::parse_u64(line.substr(space + 1, 3));
    if (!status) fail(ErrorCode::protocol, "the answer's first line is not HTTP");
    response_.status = static_cast<int>(*status);
    answer_begun_ = response_.status >= 200;
  } else if (line.empty()) {
    if (answer_begun_) head_done();
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    const std::string value(trimmed(line.substr(colon + 1)));
    const auto [place, added] = response_.headers.emplace(std::string(line.substr(0, colon)), value);
    if (!added) place->second += ", " + value;
  }
}

void ClientTransfer::head_done() {
  head_done_ = true;
  to_file_ = request_.output_file && (response_.status == 200 || response_.status == 206);
  if (to_file_ && response_.status == 206) check_partial_content();
  const bool has_length = request_.method != "HEAD" && response_.status != 204 && response_.status != 304;
  if (const auto found = response_.headers.find("Content-Length");
      has_length && found != response_.headers.end()) {
    content_length_ = system::parse_u64(found->second);
  }
}

void ClientTransfer::check_partial_content() const {
  const auto header = response_.headers.find("Content-Range");
  const auto range = header == response_.headers.end() ? std::nullopt : parse_content_range(header->second);
  if (!range) fail(ErrorCode::protocol, "a partial answer without a Content-Range that can be read");
  std::uint64_t first = request_.output_offset;
  if (const auto asked = request_.headers.find("Range"); first == 0 && asked != request_.headers.end()) {
    const RangeRequest parsed = parse_range(asked->second, range->size.value_or(UINT64_MAX));
    if (parsed.kind == RangeRequest::Kind::part) first = parsed.range.first;
  }
  if (range->range.first != first) {
    fail(ErrorCode::protocol, "the partial answer starts at byte " + std::to_string(range->range.first) +
                                  ", not at " + std::to_string(first));
  }
  const auto length = response_.headers.find("Content-Length");
  if (length != response_.headers.end() &&
      system::parse_u64(length->second) != range->range.last - range->range.first + 1) {
    fail(ErrorCode::protocol, "the partial answer's Content-Range and Content-Length differ");
  }
}

void ClientTransfer::take_body(std::string_view piece) {
  if (!head_done_) fail(ErrorCode::protocol, "a body before the end of the header");
  const bool streamed = request_.on_body && !to_file_ && response_.status / 100 == 2;
  const std::uint64_t bytes_max = to_file_ ? request_.output_bytes_max : request_.response_bytes_max;
  const std::uint64_t at_least = std::max(response_.body_bytes + piece.size(), content_length_.value_or(0));
  if (!streamed && at_least > bytes_max) {
    fail(ErrorCode::too_large, "the answer has at least " + std::to_string(at_least) + " bytes; at most " +
                                   std::to_string(bytes_max) + " are taken");
  }
  response_.body_bytes += piece.size();
  digest_.update(piece);
  if (to_file_) {
    if (!output_)
      output_.emplace(*request_.output_file, response_.status == 206 ? request_.output_offset : 0);
    output_->write(std::as_bytes(std::span(piece.data(), piece.size())));
  } else if (streamed) {
    ended_by_caller_ = !request_.on_body(piece);
  } else {
    response_.body.append(piece);
  }
}

void ClientTransfer::check_length() const {
  if (content_length_ && *content_length_ != response_.body_bytes) {
    fail(ErrorCode::unavailable, "the answer was cut: " + std::to_string(response_.body_bytes) + " of " +
                                     std::to_string(*content_length_) + " bytes came");
  }
}

void ClientTransfer::fail(ErrorCode code, const std::string &what) const {
  throw Error(code, request_.method + " " + shown_url(request_.url) + ": " + what);
}

void ClientTransfer::fail(CURLcode code) const {
  const std::string detail = error_text_[0] ? &error_text_[0] : curl_easy_strerror(code);
  const auto says = [&](std::string_view word) { return detail.find(word) != std::string::npos; };
  // OpenSSL's sentence for an alert that the peer sent. In TLS 1.3 it comes after the handshake, as a failed
  // read.
  const bool certificate_refused =
      says("alert") && (says("certificate") || says("unknown ca") || says("access denied"));
  if (certificate_refused) {
    fail(ErrorCode::unauthorized,
         std::string("TLS: the peer refused this side's certificate") +
             (options_.certificate_file.empty() ? ": none was given; set certificate_file" : "") + " (" +
             detail + ")");
  }
  switch (code) {
    case CURLE_OUT_OF_MEMORY:
      // cURL's word for a line that is longer than its own limit, too.
      if (answer_begun_ && !head_done_) fail(ErrorCode::protocol, "the answer's header is too long");
      throw std::bad_alloc();
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_WRITE_ERROR:
    case CURLE_READ_ERROR:
      if (interrupted_) fail(ErrorCode::cancelled, "the client was interrupted");
      fail(ErrorCode::internal, detail);
    case CURLE_URL_MALFORMAT:
      fail(ErrorCode::invalid_argument, "the URL is not well-formed");
    case CURLE_OPERATION_TIMEDOUT:
      fail(ErrorCode::timeout,
           "no connection within " + std::to_string(options_.connect_timeout.count()) + " ms");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      fail(ErrorCode::protocol, "the peer does not speak HTTP/1.1 (" + detail + ")");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      fail(ErrorCode::unauthorized, "TLS: the peer's certificate is not accepted (" + detail +
                                        "); check the authority's file, and the name in the URL");
    case CURLE_SSL_CACERT_BADFILE:
      fail(ErrorCode::unauthorized,
           "TLS: the authority's file " + options_.ca_file.string() + " cannot be used (" + detail + ")");
    case CURLE_SSL_CERTPROBLEM:
      fail(ErrorCode::unauthorized, "TLS: the certificate " + options_.certificate_file.string() +
                                        " or its key cannot be used (" + detail + ")");
    case CURLE_SSL_CONNECT_ERROR:
      if (says("wrong version number") || says("http request") || says("packet length")) {
        fail(ErrorCode::protocol, "the peer does not speak TLS (" + detail + ")");
      }
      fail(says("alert") ? ErrorCode::protocol : ErrorCode::unavailable,
           "TLS: no agreement (" + detail + ")");
    case CURLE_PARTIAL_FILE:
      fail(ErrorCode::unavailable, "the answer was cut (" + detail + ")");
    default:
      fail(ErrorCode::unavailable, detail);
  }
}

}  // namespace parsyn::http
