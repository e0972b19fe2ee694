// The worker's side over HTTP(S): dials out only.
#include <map>
#include <mutex>
#include <system_error>

#include "http/http_client.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "transport/client_options.hpp"
#include "transport/loopback.hpp"
#include "transport/make_http_transport.hpp"
#include "transport/paths.hpp"
#include "wire/messages.hpp"
#include "wire/problem.hpp"

namespace parsyn {
namespace {

/// Beyond the time that a long poll is held back: for the way there and back.
constexpr std::chrono::milliseconds kPollSlack{15'000};
constexpr std::chrono::milliseconds kGoodbyeTimeout{2'000};

http::HttpClientOptions goodbye_options(const HttpTransportOptions &options) {
  http::HttpClientOptions client = transport::client_options(options);
  client.connect_timeout = kGoodbyeTimeout;
  client.idle_timeout = kGoodbyeTimeout;
  return client;
}

bool is_success(int status) { return status >= 200 && status < 300; }

class HttpTransport final : public Transport {
 public:
  HttpTransport(const HttpTransportOptions &options, const transport::MakeRequester &make_client)
      : base_(transport::checked_base_url(options.url, options.allow_plain_http)),
        token_(options.token),
        client_(make_client(transport::client_options(options))),
        goodbye_(make_client(goodbye_options(options))) {
    if (token_.empty())
      throw Error(ErrorCode::invalid_argument,
                  "a worker needs its token (parsyn-job worker add tells it once)");
    if (token_.find_first_of("\r\n \t") != std::string::npos)
      throw Error(ErrorCode::invalid_argument, "the worker's token has white space in it");
  }

  SessionGrant open_session(const SessionRequest &request) override {
    return wire::decode_session_grant(post(transport::kSessionPath, wire::encode(request)));
  }

  void close_session(std::uint64_t lease) override {
    http::HttpClientRequest request =
        authorised("DELETE", transport::kSessionPath + ("?lease=" + std::to_string(lease)));
    expect_success(goodbye_->perform(request));
  }

  std::optional<Task> next_task(const TaskPoll &poll) override {
    {
      const std::lock_guard lock(mutex_);
      lease_ = poll.lease;
    }
    return wire::decode_task_answer(post(transport::kTaskPath, wire::encode(poll), poll.wait + kPollSlack));
  }

  ReportReceipt report(const Report &report) override {
    return wire::decode_report_receipt(post(transport::kReportPath, wire::encode(report)));
  }

  HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) override {
    return wire::decode_heartbeat_answer(
        post(transport::kHeartbeatPath, wire::encode(heartbeat), limits::kHeartbeatInterval));
  }

  void download(const ObjectRef &object, const std::filesystem::path &file,
                const TransferProgress &progress) override {
    std::filesystem::path part = file;
    part += ".part";
    std::error_code missing;
    std::uint64_t there = std::filesystem::file_size(part, missing);
    if (missing || there > object.bytes) there = 0;
    if (there < object.bytes || object.bytes == 0) {
      const auto perform = [&](const std::string &url) {
        http::HttpClientRequest request;
        request.url = absolute(url);
        request.output_file = part;
        request.output_offset = there;
        request.output_bytes_max = object.bytes;
        if (there > 0) request.headers["Range"] = "bytes=" + std::to_string(there) + "-";
        if (progress) {
          request.progress = [&](std::uint64_t, std::uint64_t received) {
            return progress(there + received, object.bytes);
          };
        }
        return client_->perform(request);
      };
      with_fresh_url({.lease = lease(), .key = object.key, .write = false}, object.url, perform);
    }
    // Of the whole object, whichever calls brought its pieces: a mix of two versions cannot pass.
    const std::string sha256 = system::sha256_hex(system::FileSource(part));
    if (sha256 != object.sha256) {
      std::filesystem::remove(part, missing);
      throw Error(ErrorCode::corrupt_data, "the downloaded object " + object.key + " has SHA-256 " + sha256 +
                                               "; the task says " + object.sha256);
    }
    std::filesystem::rename(part, file, missing);
    if (missing) throw Error(ErrorCode::io, "cannot rename " + part.string() + ": " + missing.message());
  }

  void upload(const UploadSlot &slot, const std::filesystem::path &file,
              const TransferProgress &progress) override {
    const std::uint64_t bytes = system::FileSource(file).size();
    if (bytes > slot.bytes_max) {
      throw Error(ErrorCode::too_large, "the update has " + std::to_string(bytes) + " bytes; at most " +
                                            std::to_string(slot.bytes_max) + " are taken");
    }
    const auto perform = [&](const std::string &url) {
      http::HttpClientRequest request;
      request.method = "PUT";
      request.url = absolute(url);
      request.headers["Content-Type"] = "application/octet-stream";
      request.body_file = file;
      if (progress)
        request.progress = [&](std::uint64_t sent, std::uint64_t) { return progress(sent, bytes); };
      return client_->perform(request);
    };
    with_fresh_url({.lease = lease(), .key = slot.key, .write = true}, slot.url, perform);
  }

  void interrupt() override { client_->interrupt(); }

 private:
  std::uint64_t lease() const {
    const std::lock_guard lock(mutex_);
    return lease_;
  }

  std::string absolute(const std::string &url) const { return url.starts_with('/') ? base_ + url : url; }

  http::HttpClientRequest authorised(std::string method, const std::string &path) const {
    http::HttpClientRequest request;
    request.method = std::move(method);
    request.url = base_ + path;
    request.headers["Authorization"] = "Bearer " + token_;
    request.headers["Accept"] = "application/json";
    return request;
  }

  static std::string expect_success(http::HttpClientResponse response) {
    if (!is_success(response.status)) throw wire::error_from_problem(response.status, response.body);
    return std::move(response.body);
  }

  std::string post(const std::string &path, std::string body,
                   std::optional<std::chrono::milliseconds> idle_timeout = {}) {
    http::HttpClientRequest request = authorised("POST", path);
    request.headers["Content-Type"] = "application/json";
    request.body = std::move(body);
    request.idle_timeout = idle_timeout;
    return expect_success(client_->perform(request));
  }

  /// A URL lives shorter than the work between its making and its use may take: an expired one is renewed,
  /// once.
  template <typename Perform>
  void with_fresh_url(const wire::UrlRequest &renewal, const std::string &url, const Perform &perform) {
    http::HttpClientResponse response = perform(url);
    if (is_success(response.status)) return;
    const Error error = wire::error_from_problem(response.status, response.body);
    const bool expired = !error.faults().empty() && error.faults().front().code == transport::kUrlExpired;
    if (!expired) throw error;
    expect_success(perform(wire::decode_url_answer(post(transport::kUrlPath, wire::encode(renewal))).url));
  }

  const std::string base_;
  const std::string token_;
  const std::unique_ptr<http::Requester> client_;
  const std::unique_ptr<http::Requester>
      goodbye_;  // not interrupted: a clean goodbye is said after interrupt()
  mutable std::mutex mutex_;
  std::uint64_t lease_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_http_transport(const HttpTransportOptions &options) {
  return transport::make_http_transport(options, [](const http::HttpClientOptions &client) {
    return std::make_unique<http::HttpClient>(client);
  });
}

std::unique_ptr<Transport> transport::make_http_transport(const HttpTransportOptions &options,
                                                          const MakeRequester &make_client) {
  return std::make_unique<HttpTransport>(options, make_client);
}

}  // namespace parsyn
