// The worker's side over HTTP(S): dials out only.
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>

#include "http/http_client.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "text/encoding.hpp"
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

constexpr char kContentSha256[] = "X-Content-SHA256";

bool is_success(int status) { return status >= 200 && status < 300; }

/// How long the answer asks for. A date instead of seconds is not read: it takes two clocks that agree.
std::chrono::milliseconds retry_after_of(const http::HttpClientResponse &answer) {
  constexpr std::chrono::seconds kMost = std::chrono::floor<std::chrono::seconds>(limits::kRetryAfterMax);
  const auto asked = text::parse_u64(answer.header("Retry-After"));
  return std::chrono::seconds(std::min<std::uint64_t>(asked.value_or(0), kMost.count()));
}

/// What an answer without success says.
Error error_of(const http::HttpClientResponse &answer) {
  Error error = wire::error_from_problem(answer.status, answer.body);
  error.set_retry_after(retry_after_of(answer));
  return error;
}

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
        request.output_mode = system::kPrivateFile;
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
    // Only the coordinator's own URLs know parts of an object; a presigned one of a store takes it whole.
    const bool resumable = slot.url.starts_with('/');
    std::error_code unknown;
    const Unfinished upload{slot.key, bytes, std::filesystem::last_write_time(file, unknown)};
    const Update update{slot, file, bytes, progress};
    try {
      if (!resumable || !is_unfinished(upload) || !go_on(update)) send_from(0, update);
    } catch (const Error &error) {
      const bool again = error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout;
      set_unfinished(resumable && again ? std::optional(upload) : std::nullopt);
      throw;
    }
    set_unfinished(std::nullopt);
  }

  void interrupt() override { client_->interrupt(); }

 private:
  std::uint64_t lease() const {
    const std::lock_guard lock(mutex_);
    return lease_;
  }

  /// An upload that broke off: of this file, as it was then.
  struct Unfinished {
    std::string key;
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type written;
    bool operator==(const Unfinished &) const = default;
  };
  bool is_unfinished(const Unfinished &upload) const {
    const std::lock_guard lock(mutex_);
    return unfinished_ == upload;
  }
  void set_unfinished(std::optional<Unfinished> upload) {
    const std::lock_guard lock(mutex_);
    unfinished_ = std::move(upload);
  }

  /// What upload() was called with.
  struct Update {
    const UploadSlot &slot;
    const std::filesystem::path &file;
    const std::uint64_t bytes;
    const TransferProgress &progress;
  };

  /// Asks how much of the update is there, and sends the rest. False when that is nothing.
  bool go_on(const Update &update) {
    const std::uint64_t bytes = update.bytes;
    const http::HttpClientResponse answer = put(update.slot, [&](http::HttpClientRequest &request) {
      request.headers["Content-Range"] = "bytes */" + std::to_string(bytes);
    });
    if (answer.headers.contains(kContentSha256)) {  // all of it, and only the answer was lost
      check_stored(update, answer);
      if (update.progress) update.progress(bytes, bytes);
      return true;
    }
    const auto there = text::parse_u64(answer.header(transport::kUploadOffset));
    if (!there || *there == 0 || *there >= bytes) return false;
    try {
      send_from(*there, update);
    } catch (const Error &error) {
      // Another request has moved the offset, or the coordinator has been restarted: it is asked again.
      if (error.code() != ErrorCode::conflict) throw;
      throw Error(ErrorCode::unavailable, error.message(), error.faults());
    }
    return true;
  }

  void send_from(std::uint64_t offset, const Update &update) {
    check_stored(update, put(update.slot, [&](http::HttpClientRequest &request) {
                   request.headers["Content-Type"] = "application/octet-stream";
                   request.body_file = update.file;
                   request.body_offset = offset;
                   if (offset > 0) {
                     request.headers["Content-Range"] = "bytes " + std::to_string(offset) + "-" +
                                                        std::to_string(update.bytes - 1) + "/" +
                                                        std::to_string(update.bytes);
                   }
                   if (update.progress) {
                     request.progress = [&update, offset](std::uint64_t sent, std::uint64_t) {
                       return update.progress(offset + sent, update.bytes);
                     };
                   }
                 }));
  }

  template <typename Fill>
  http::HttpClientResponse put(const UploadSlot &slot, const Fill &fill) {
    return with_fresh_url({.lease = lease(), .key = slot.key, .write = true}, slot.url,
                          [&](const std::string &url) {
                            http::HttpClientRequest request;
                            request.method = "PUT";
                            request.url = absolute(url);
                            fill(request);
                            return client_->perform(request);
                          });
  }

  /// The parts may be of two files, and what lies between may have changed them.
  static void check_stored(const Update &update, const http::HttpClientResponse &answer) {
    const std::string stored = answer.header(kContentSha256);
    if (stored.empty()) return;
    const std::string sha256 = system::sha256_hex(system::FileSource(update.file));
    if (stored != sha256) {
      throw Error(ErrorCode::corrupt_data, "the update is stored as " + update.slot.key + " with SHA-256 " +
                                               stored + "; the file has " + sha256);
    }
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
    if (!is_success(response.status)) throw error_of(response);
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

  /// A URL lives shorter than the work between its making and its use may take, and not longer than the
  /// coordinator's process: one that is over is renewed, once.
  template <typename Perform>
  http::HttpClientResponse with_fresh_url(const wire::UrlRequest &renewal, const std::string &url,
                                          const Perform &perform) {
    const auto failure_of = [](const http::HttpClientResponse &response) {
      Error error = error_of(response);
      if (error.code() != ErrorCode::io) return error;
      // The coordinator's disk, not this worker's: the task has not failed, the object can be sent anew.
      Error passes(ErrorCode::unavailable, error.message(), error.faults());
      passes.set_retry_after(error.retry_after());
      return passes;
    };
    http::HttpClientResponse response = perform(url);
    if (is_success(response.status)) return response;
    const Error error = failure_of(response);
    const bool expired = !error.faults().empty() && error.faults().front().code == transport::kUrlExpired;
    if (!expired) throw error;
    response = perform(wire::decode_url_answer(post(transport::kUrlPath, wire::encode(renewal))).url);
    if (!is_success(response.status)) throw failure_of(response);
    return response;
  }

  const std::string base_;
  const std::string token_;
  const std::unique_ptr<http::Requester> client_;
  // Not interrupted: a clean goodbye is said after interrupt().
  const std::unique_ptr<http::Requester> goodbye_;
  mutable std::mutex mutex_;
  std::uint64_t lease_ = 0;               // guarded by mutex_
  std::optional<Unfinished> unfinished_;  // guarded by mutex_; one, as a worker uploads one update at a time
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
