// What only the transport over HTTP promises.
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "http/http_client.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/loopback_serving.hpp"
#include "support/raw_socket.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// A store on a disk that stands still while a test wants it to.
class StuckStore final : public ObjectStore {
 public:
  std::unique_ptr<ObjectWriter> create(std::string_view key) override { return below_->create(key); }
  std::unique_ptr<ByteSource> open(std::string_view key) const override {
    if (stuck) moves.wait();
    return below_->open(key);
  }
  ObjectInfo stat(std::string_view key) const override { return below_->stat(key); }
  std::vector<std::string> list(std::string_view prefix) const override { return below_->list(prefix); }
  void remove(std::string_view key) override { below_->remove(key); }

  std::atomic<bool> stuck{false};
  mutable Gate moves;

 private:
  std::shared_ptr<ObjectStore> below_ = make_memory_store();
};

CoordinatorOptions options_with(std::shared_ptr<ObjectStore> store) {
  CoordinatorOptions options;
  options.store = std::move(store);
  return options;
}

/// A small job's coordinator behind a server, and one worker with a task.
class Served {
 public:
  explicit Served(const std::shared_ptr<ObjectStore> &store = make_memory_store(),
                  unsigned handler_threads = 4)
      : small(constant(0), 12, options_with(store)), serve_(serve(handler_threads)) {
    server_.emplace(*small.coordinator, serve_);
    serve_.port = server_->port();
    client.url = server_->url();
    client.token = small.coordinator->add_worker({"w", WorkerKind::own}).token;
    worker = std::make_unique<ManualWorker>(make_http_transport(client));
    worker->connect();
    small.coordinator->submit(small.config(1, 1));
    task = worker->task();
  }

  std::string url() const { return server_->url(); }
  void restart_server() {
    server_.reset();
    server_.emplace(*small.coordinator, serve_);
  }

  SmallJob small;
  HttpTransportOptions client;
  std::unique_ptr<ManualWorker> worker;
  Task task;

 private:
  static ServeOptions serve(unsigned handler_threads) {
    ServeOptions options = loopback_serving();
    options.handler_threads = handler_threads;
    return options;
  }

  ServeOptions serve_;
  std::optional<CoordinatorServer> server_;
};

}  // namespace

TEST_CASE("a part of an object is not stored as the whole") {
  Served served;
  http::HttpClient client;
  http::HttpClientRequest request;
  request.method = "PUT";
  request.url = served.url() + served.task.upload->url;
  request.body = "half";
  request.headers["Content-Range"] = "bytes 0-3/8";
  CHECK(client.perform(request).status == 204);
  CHECK(error_of([&] { served.small.coordinator->store().stat(served.task.upload->key); }).code() ==
        ErrorCode::not_found);
  request.headers.erase("Content-Range");
  CHECK(client.perform(request).status == 200);
}

TEST_CASE("an upload that arrives as something else is corrupt, before it is reported") {
  const std::string arrived(64, 'a');
  RawServer changes([&](RawConnection &connection) {
    connection.receive_until("half");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Content-SHA256: " + arrived + "\r\n\r\n{}");
  });
  HttpTransportOptions options;
  options.url = changes.url("");
  options.token = "token";
  const auto transport = make_http_transport(options);
  const TemporaryFolder folder;
  const Error error = error_of([&] {
    transport->upload({"jobs/1/a", 100, "/put"}, folder.file("a", "half"), {});
  });
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, arrived));
}

TEST_CASE("a transfer from a disk that stands still does not hold up heartbeats and polls") {
  const auto store = std::make_shared<StuckStore>();
  Served served(store, 1);
  TemporaryFolder folder;
  store->stuck = true;
  std::thread downloads(
      [&] { served.worker->transport().download(served.task.global, folder.path() / "weights", {}); });
  const bool stands_still = store->moves.reached();
  bool beats = false;
  try {
    served.worker->transport().heartbeat({.lease = served.worker->lease(), .progress = {}});
    beats = served.worker->has_task();
  } catch (const Error &error) {
    UNSCOPED_INFO(error.message());
  }
  store->stuck = false;
  store->moves.open();
  downloads.join();
  CHECK(stands_still);
  CHECK(beats);
  CHECK(std::filesystem::exists(folder.path() / "weights"));
}

TEST_CASE("URLs that were signed before the server was started again are renewed") {
  Served served;
  served.restart_server();
  CHECK(served.worker->weights(served.task) == constant(0));
  CHECK(served.worker->train(served.task, constant(1)).accepted);
}

TEST_CASE("fresh URLs are given to the process that has the worker's session, and to no other") {
  Served served;
  http::HttpClient client;
  const auto ask = [&](std::uint64_t lease, const std::string &key) {
    http::HttpClientRequest request;
    request.method = "POST";
    request.url = served.url() + "/api/v1/worker/url";
    request.headers["Authorization"] = "Bearer " + served.client.token;
    request.headers["Content-Type"] = "application/json";
    request.body = R"({"lease":)" + std::to_string(lease) + R"(,"key":")" + key + R"("})";
    return client.perform(request);
  };
  const std::uint64_t older = served.worker->lease();
  CHECK(ask(older, served.task.global.key).status == 200);
  ManualWorker newer(make_http_transport(served.client), "newer");
  newer.connect();
  const Task task = newer.task();
  CHECK(ask(newer.lease(), task.global.key).status == 200);
  const auto refused = ask(older, task.global.key);
  CHECK(refused.status == 409);
  CHECK(refused.body.find("lease_superseded") != std::string::npos);
}

TEST_CASE("an answer that asks to be left alone for a while says so, up to a bound") {
  const auto retry_after = [](const std::string &status, const std::string &header) {
    RawServer busy([&](RawConnection &connection) {
      connection.receive_until("}");
      connection.send("HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n" + header + "\r\n");
    });
    HttpTransportOptions options;
    options.url = busy.url("");
    options.token = "token";
    const auto transport = make_http_transport(options);
    const Error error = error_of([&] { transport->heartbeat({.lease = 1, .progress = {}}); });
    CHECK(error.code() == ErrorCode::unavailable);
    return error.retry_after();
  };
  CHECK(retry_after("503 Service Unavailable", "") == std::chrono::seconds(0));
  CHECK(retry_after("503 Service Unavailable", "Retry-After: 7\r\n") == std::chrono::seconds(7));
  CHECK(retry_after("429 Too Many Requests", "retry-after: 1\r\n") == std::chrono::seconds(1));
  CHECK(retry_after("429 Too Many Requests", "Retry-After: 86400\r\n") == limits::kRetryAfterMax);
  CHECK(retry_after("503 Service Unavailable", "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n") ==
        std::chrono::seconds(0));
}
