// What every Transport promises, on each backend: in-process, plain HTTP, and HTTPS.
#include <atomic>
#include <thread>

#include "parsyn/http.hpp"
#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/loopback_serving.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// A coordinator that is reached by one kind of transport.
class Backend {
 public:
  explicit Backend(const std::string &kind) : kind_(kind) {
    if (kind_ == "in-process") return;
    ServeOptions options = loopback_serving();
    if (kind_ == "https") {
      authority_.emplace(folder_, "test authority");
      const auto identity = authority_->issue("server", "IP:127.0.0.1");
      options.certificate_file = identity.certificate;
      options.private_key_file = identity.private_key;
    }
    server_.emplace(*small.coordinator, options);
  }

  std::unique_ptr<Transport> connect(const std::string &token) {
    if (kind_ == "in-process") return make_in_process_transport(small.coordinator->worker_service(), token);
    HttpTransportOptions options;
    options.url = server_->url();
    options.token = token;
    if (authority_) options.ca_file = authority_->file();
    return make_http_transport(options);
  }

  ManualWorker join(const std::string &name) {
    ManualWorker worker(connect(small.coordinator->add_worker({name, WorkerKind::own}).token));
    worker.connect();
    return worker;
  }

  SmallJob small{constant(0)};

 private:
  std::string kind_;
  TemporaryFolder folder_;
  std::optional<CertificateAuthority> authority_;
  std::optional<CoordinatorServer> server_;
};

ErrorCode code_of(const std::function<void()> &call) {
  try {
    call();
  } catch (const Error &error) {
    return error.code();
  }
  return ErrorCode::ok;
}

void connect_to(const std::string &url) {
  HttpTransportOptions options;
  options.url = url;
  options.token = "token";
  make_http_transport(options);
}

}  // namespace

TEST_CASE("a transport carries a job from the task to the averaged model") {
  Backend backend(GENERATE("in-process", "http", "https"));
  ManualWorker a = backend.join("a");
  ManualWorker b = backend.join("b");
  const Id job = backend.small.coordinator->submit(backend.small.config(2, 2, 2)).id;
  for (float round = 1; round <= 2; ++round) {
    for (ManualWorker *worker : {&a, &b}) {
      const Task task = worker->task();
      CHECK(task.round == static_cast<std::uint32_t>(round));
      CHECK(task.num_rounds == 2);
      CHECK(task.job_name == "small");
      CHECK(f32_elements(worker->weights(task).at("w")).at(0) == round - 1);
      CHECK(worker->train(task, constant(worker == &a ? round - 1 : round + 1)).accepted);
    }
  }
  CHECK(backend.small.ended(job).state == JobState::completed);
  CHECK(backend.small.value(job) == 2.0F);
}

TEST_CASE("a worker reaches its own task's objects and nothing else") {
  Backend backend(GENERATE("in-process", "http", "https"));
  ManualWorker a = backend.join("a");
  ManualWorker b = backend.join("b");
  backend.small.coordinator->submit(backend.small.config(2, 2));
  const Task task_a = a.task();
  const Task task_b = b.task();
  TemporaryFolder folder;
  const auto file = folder.path() / "object";
  a.transport().download(*task_a.train, file, {});
  CHECK(std::filesystem::file_size(file) == task_a.train->bytes);
  CHECK(std::filesystem::status(file).permissions() == std::filesystem::perms(0600));  // training data

  ObjectRef others = *task_b.train;
  others.url.clear();
  ObjectRef forged = *task_a.train;
  forged.key = others.key;
  const auto slash = forged.url.rfind('/');
  if (slash != std::string::npos)
    forged.url.replace(slash, forged.url.find('?') - slash, others.key.substr(others.key.rfind('/')));
  CHECK(code_of([&] { a.transport().download(forged, folder.path() / "forged", {}); }) ==
        ErrorCode::forbidden);

  // Its slot is for writing once, before its report, and only its own.
  UploadSlot slot = *task_a.upload;
  slot.key = task_b.upload->key;
  if (!slot.url.empty()) slot.url.replace(slot.url.find("worker-"), 8, "worker-9");
  const auto update = folder.file("update", "bytes");
  CHECK(code_of([&] { a.transport().upload(slot, update, {}); }) == ErrorCode::forbidden);
  a.train(task_a, constant(1));
  CHECK(code_of([&] { a.transport().upload(*task_a.upload, update, {}); }) == ErrorCode::forbidden);
  CHECK(code_of([&] { a.transport().download(*task_a.train, folder.path() / "late", {}); }) ==
        ErrorCode::forbidden);
}

TEST_CASE("an update that is larger than its slot is refused") {
  Backend backend(GENERATE("in-process", "http"));
  ManualWorker a = backend.join("a");
  backend.small.coordinator->submit(backend.small.config(1, 1));
  Task task = a.task();
  TemporaryFolder folder;
  const auto file = folder.file("large", std::string(task.upload->bytes_max + 1, 'x'));
  task.upload->bytes_max *= 2;  // the worker does not know, or does not care
  CHECK(code_of([&] { a.transport().upload(*task.upload, file, {}); }) == ErrorCode::too_large);
}

TEST_CASE(
    "a download that does not have the promised digest is refused, and nothing is left under its name") {
  Backend backend(GENERATE("in-process", "http"));
  ManualWorker a = backend.join("a");
  backend.small.coordinator->submit(backend.small.config(1, 1));
  const Task task = a.task();
  ObjectRef wrong = task.global;
  wrong.sha256[0] = wrong.sha256[0] == '0' ? '1' : '0';
  TemporaryFolder folder;
  CHECK(code_of([&] { a.transport().download(wrong, folder.path() / "object", {}); }) ==
        ErrorCode::corrupt_data);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "object"));
}

TEST_CASE("an unknown or revoked token is refused") {
  Backend backend(GENERATE("in-process", "http", "https"));
  ManualWorker stranger(backend.connect("no-such-token"));
  CHECK(code_of([&] { stranger.connect(); }) == ErrorCode::unauthorized);
  ManualWorker a = backend.join("a");
  backend.small.coordinator->remove_worker(a.id());
  CHECK(code_of([&] { a.connect(); }) == ErrorCode::unauthorized);
}

TEST_CASE("a process that asks for its session again has the same one, with the task that it holds") {
  Backend backend(GENERATE("in-process", "http"));
  ManualWorker a = backend.join("a");
  const std::uint64_t lease = a.lease();
  backend.small.coordinator->submit(backend.small.config(1, 1));
  const Task task = a.task();
  CHECK(a.connect().lease == lease);  // as when the network delivers a request twice
  CHECK(a.task().task_id == task.task_id);
  CHECK(a.train(task, constant(1)).accepted);
}

TEST_CASE("a late request of a process that was replaced does not end the newer one's session") {
  Backend backend(GENERATE("in-process", "http"));
  const std::string token = backend.small.coordinator->add_worker({"a", WorkerKind::own}).token;
  ManualWorker older(backend.connect(token), "older");
  older.connect();
  ManualWorker newer(backend.connect(token), "newer");
  newer.connect();
  try {
    older.connect();
    FAIL("was accepted");
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::conflict);
    REQUIRE(error.faults().size() == 1);
    CHECK(error.faults()[0].code == "lease_superseded");
  }
  newer.transport().heartbeat({.lease = newer.lease(), .progress = {}});
}

TEST_CASE("another version of the protocol is refused in words") {
  Backend backend(GENERATE("in-process", "http"));
  const auto transport =
      backend.connect(backend.small.coordinator->add_worker({"old", WorkerKind::own}).token);
  SessionRequest request;
  request.protocol_version = 99;
  try {
    transport->open_session(request);
    FAIL("was accepted");
  } catch (const Error &error) {
    CHECK(error.code() == ErrorCode::protocol);
    CHECK(error.message().find("99") != std::string::npos);
  }
}

TEST_CASE("a poll is answered empty when its wait is over, and at once when a task comes") {
  Backend backend(GENERATE("in-process", "http"));
  ManualWorker a = backend.join("a");
  CHECK_FALSE(
      a.transport().next_task({.lease = a.lease(), .wait = std::chrono::milliseconds(50)}).has_value());
  std::thread submits([&] { backend.small.coordinator->submit(backend.small.config(1, 1)); });
  CHECK(a.transport().next_task({.lease = a.lease(), .wait = std::chrono::seconds(20)}).has_value());
  submits.join();
}

TEST_CASE("interrupt ends a running poll and every later call with cancelled, but not the goodbye") {
  Backend backend(GENERATE("in-process", "http"));
  ManualWorker a = backend.join("a");
  std::atomic<ErrorCode> code{ErrorCode::ok};
  std::thread polls([&] {
    code = code_of([&] { a.transport().next_task({.lease = a.lease(), .wait = std::chrono::seconds(20)}); });
  });
  a.transport().interrupt();
  polls.join();
  CHECK(code == ErrorCode::cancelled);
  CHECK(code_of([&] { a.transport().heartbeat({.lease = a.lease(), .progress = {}}); }) ==
        ErrorCode::cancelled);
  a.transport().close_session(a.lease());
  CHECK_FALSE(backend.small.coordinator->worker(a.id()).live);
}

TEST_CASE("fault 111: an expired URL is renewed on demand, once") {
  const std::chrono::milliseconds lifetime(GENERATE(-1000, 300));
  SmallJob small;
  ServeOptions options = loopback_serving();
  options.url_lifetime = lifetime;
  CoordinatorServer server(*small.coordinator, options);
  HttpTransportOptions client;
  client.url = server.url();
  client.token = small.coordinator->add_worker({"a", WorkerKind::own}).token;
  ManualWorker a(make_http_transport(client));
  a.connect();
  small.coordinator->submit(small.config(1, 1));
  const Task task = a.task();
  const auto expired = std::chrono::steady_clock::now() + lifetime + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < expired)
    a.transport().heartbeat({.lease = a.lease(), .progress = {}});
  TemporaryFolder folder;
  const ErrorCode code = code_of([&] { a.transport().download(task.global, folder.path() / "weights", {}); });
  // With a negative lifetime the fresh URL has expired too: that is told, not tried for ever.
  CHECK(code == (lifetime.count() < 0 ? ErrorCode::forbidden : ErrorCode::ok));
}

TEST_CASE("plain HTTP beyond loopback is refused on both sides") {
  SmallJob small;
  ServeOptions options = loopback_serving();
  options.address = "0.0.0.0";
  CHECK(code_of([&] { CoordinatorServer(*small.coordinator, options); }) == ErrorCode::invalid_argument);
  for (const char *url : {"http://example.org:8080", "http://127.0.0.1.example.org", "ftp://127.0.0.1",
                          "http://user:secret@127.0.0.1", ""}) {
    INFO(url);
    CHECK(code_of([&] { connect_to(url); }) == ErrorCode::invalid_argument);
  }
  CHECK(code_of([&] { connect_to("http://[::1]:8080/"); }) == ErrorCode::ok);
}
