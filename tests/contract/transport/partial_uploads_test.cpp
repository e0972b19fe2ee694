// Uploads that break off and go on.
#include "transport/partial_uploads.hpp"

#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "http/http_client.hpp"
#include "parsyn/http.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/eventually.hpp"
#include "support/loopback_serving.hpp"
#include "support/moved_clock.hpp"
#include "support/put_proxy.hpp"
#include "support/raw_socket.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

constexpr std::uint64_t kElements = 300'000;
/// What may be on its way through the server when it learns that a connection has ended, and is sent again.
constexpr std::uint64_t kUnderWay = 128 << 10;

ServeOptions serve_options(std::chrono::milliseconds url_lifetime) {
  ServeOptions options = loopback_serving();
  options.url_lifetime = url_lifetime;
  return options;
}

CoordinatorOptions with_store(std::shared_ptr<ObjectStore> store) {
  CoordinatorOptions options;
  options.store = std::move(store);
  return options;
}

/// A coordinator behind a server and a proxy, and a worker with a task whose update is about 1.2 MB.
class Served {
 public:
  explicit Served(std::chrono::milliseconds url_lifetime = limits::kUrlLifetime)
      : small(constant(0, kElements), 12, with_store(make_file_store(folder.path() / "store"))),
        server(*small.coordinator, serve_options(url_lifetime)),
        proxy(server.port()) {
    HttpTransportOptions client;
    client.url = proxy.url();
    client.token = small.coordinator->add_worker({"w", WorkerKind::own}).token;
    worker.emplace(make_http_transport(client));
    worker->connect();
    small.coordinator->submit(small.config(1, 1));
    task = worker->task();
    MemorySink sink;
    write_safetensors(constant(3, kElements), sink);
    update.assign(reinterpret_cast<const char *>(sink.bytes().data()), sink.bytes().size());
    file = folder.file("update", update);
  }

  void upload() { worker->transport().upload(*task.upload, file, {}); }
  ErrorCode try_upload() {
    return error_of([this] { upload(); }).code();
  }
  bool stored_is_update() const {
    const auto source = small.coordinator->store().open(task.upload->key);
    std::string stored(static_cast<std::size_t>(source->size()), '\0');
    source->read_at(0, std::as_writable_bytes(std::span(stored)));
    return stored == update;
  }
  std::uint64_t bytes_sent() const {
    const auto puts = proxy.puts();
    return std::accumulate(puts.begin(), puts.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const PutProxy::Put &put) { return sum + put.body_bytes; });
  }
  Report report() const {
    Report report = worker->report_for(task);
    report.key = task.upload->key;
    report.sha256 = system::sha256_hex(update);
    report.bytes = update.size();
    report.num_examples = task.num_examples;
    return report;
  }

  /// PUT straight to the server.
  http::HttpClientResponse put(const std::string &content_range, const std::string &body) {
    http::HttpClientRequest request;
    request.method = "PUT";
    request.url = server.url() + task.upload->url;
    request.body = body;
    if (!content_range.empty()) request.headers["Content-Range"] = content_range;
    return client_.perform(request);
  }

  TemporaryFolder folder;
  SmallJob small;
  CoordinatorServer server;
  PutProxy proxy;
  std::optional<ManualWorker> worker;
  Task task;
  std::string update;
  std::filesystem::path file;

 private:
  http::HttpClient client_;
};

std::string range(std::uint64_t first, std::uint64_t last, std::uint64_t total) {
  return "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" + std::to_string(total);
}

std::string offset_of(const http::HttpClientResponse &response) {
  const std::string offset = response.header("Upload-Offset");
  return offset.empty() ? "none" : offset;
}

std::uint64_t bytes_below(const std::filesystem::path &folder) {
  std::uint64_t bytes = 0;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

std::size_t files_below(const std::filesystem::path &folder) {
  std::size_t count = 0;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    count += entry.is_regular_file() ? 1 : 0;
  return count;
}

/// The upload slots of a coordinator without a server, and one task in it.
struct Slots {
  Slots()
      : small(constant(0), 12, with_store(make_file_store(folder.path()))),
        worker(ManualWorker::join(*small.coordinator)) {
    small.coordinator->submit(small.config(1, 1));
    task = worker.task();
  }

  WorkerService &service() const { return small.coordinator->worker_service(); }

  TemporaryFolder folder;
  SmallJob small;
  ManualWorker worker;
  Task task;
};

void write(ByteSink &sink, std::string_view text) { sink.write(std::as_bytes(std::span(text))); }

}  // namespace

TEST_CASE("an upload that is cut goes on where it was") {
  Served served;
  const std::uint64_t cut = GENERATE(0, 1, 70'000, 600'000, 1'200'000);
  REQUIRE(cut < served.update.size());
  served.proxy.cut_after(cut);
  CHECK(served.try_upload() == ErrorCode::unavailable);
  served.upload();
  CHECK(served.stored_is_update());
  CHECK(served.bytes_sent() <= served.update.size() + std::min(cut, kUnderWay));
  CHECK(served.worker->transport().report(served.report()).accepted);
}

TEST_CASE("an upload that is cut again and again comes to its end") {
  Served served;
  int cuts = 0;
  for (bool done = false; !done;) {
    served.proxy.cut_after(300'000);
    try {
      served.upload();
      done = true;
    } catch (const Error &error) {
      REQUIRE(error.code() == ErrorCode::unavailable);
      REQUIRE(++cuts < 10);
    }
  }
  CHECK(cuts >= 4);
  CHECK(served.stored_is_update());
  CHECK(served.bytes_sent() <= served.update.size() + static_cast<std::uint64_t>(cuts) * kUnderWay);
}

TEST_CASE("an upload whose answer was lost is not sent again") {
  Served served;
  served.proxy.lose_answer();
  CHECK(served.try_upload() == ErrorCode::unavailable);
  served.upload();
  CHECK(served.bytes_sent() == served.update.size());
  CHECK(served.stored_is_update());
}

TEST_CASE("a file that has changed since, and a new upload of a whole one, begin anew") {
  Served served;
  served.proxy.cut_after(500'000);
  CHECK(served.try_upload() == ErrorCode::unavailable);
  served.update[served.update.size() / 4] ^= 1;
  std::filesystem::remove(served.file);
  served.file = served.folder.file("update", served.update + " ");
  served.update += ' ';
  served.upload();
  CHECK(served.stored_is_update());
  served.upload();
  CHECK(served.proxy.puts().back().body_bytes == served.update.size());
}

TEST_CASE("a prefix that was changed on its way is found, and all is sent again") {
  Served served;
  served.proxy.flip_bit();
  served.proxy.cut_after(500'000);
  CHECK(served.try_upload() == ErrorCode::unavailable);
  CHECK(served.try_upload() == ErrorCode::corrupt_data);
  CHECK_FALSE(served.stored_is_update());
  served.upload();
  CHECK(served.proxy.puts().back().body_bytes == served.update.size());
  CHECK(served.worker->transport().report(served.report()).accepted);
}

TEST_CASE("an upload goes on with a fresh URL when its own has expired meanwhile") {
  const std::chrono::milliseconds lifetime(400);
  Served served(lifetime);
  served.proxy.cut_after(600'000);
  // On a slow machine the URL may have expired already, and the fresh one is cut.
  CHECK(served.try_upload() == ErrorCode::unavailable);
  const auto expired = std::chrono::steady_clock::now() + lifetime + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < expired)
    served.worker->transport().heartbeat({.lease = served.worker->lease(), .progress = {}});
  CHECK(served.put("bytes */" + std::to_string(served.update.size()), "").status == 403);
  served.upload();
  CHECK(served.stored_is_update());
  CHECK(served.proxy.puts().back().head.find("Content-Range: bytes ") != std::string::npos);
}

TEST_CASE("parts of an object that fit are put together") {
  Served served;
  const std::uint64_t total = served.update.size();
  const std::string question = "bytes */" + std::to_string(total);
  CHECK(offset_of(served.put(question, "")) == "0");
  const auto first = served.put(range(0, 99, total), served.update.substr(0, 100));
  CHECK(first.status == 204);
  CHECK(offset_of(first) == "100");
  CHECK(served.put(range(100, 199, total), served.update.substr(100, 100)).status == 204);
  const auto asked = served.put(question, "");
  CHECK(asked.status == 204);
  CHECK(offset_of(asked) == "200");
  CHECK(error_of([&] { served.small.coordinator->store().stat(served.task.upload->key); }).code() ==
        ErrorCode::not_found);
  const auto last = served.put(range(200, total - 1, total), served.update.substr(200));
  CHECK(last.status == 200);
  CHECK(last.headers.at("X-Content-SHA256") == system::sha256_hex(served.update));
  CHECK(served.stored_is_update());
  const auto stored = served.put(question, "");
  CHECK(stored.status == 200);
  CHECK(offset_of(stored) == std::to_string(total));
  CHECK(stored.headers.at("X-Content-SHA256") == system::sha256_hex(served.update));
}

TEST_CASE("parts of an object that do not fit are refused, and what is there stays") {
  Served served;
  const std::uint64_t total = served.update.size();
  const std::uint64_t bytes_max = served.task.upload->bytes_max;
  REQUIRE(served.put(range(0, 99, total), served.update.substr(0, 100)).status == 204);
  const std::string ten(10, 'x');
  for (const std::string &misplaced : {range(101, 110, total), range(99, 108, total), range(0, 9, total)}) {
    INFO(misplaced);
    const auto refused = served.put(misplaced, ten);
    CHECK(refused.status == 409);
    CHECK(offset_of(refused) == "100");
    CHECK(refused.body.find("byte 100") != std::string::npos);
  }
  // Of an object of another size nothing is there.
  const auto other = served.put(range(100, 109, total + 1), ten);
  CHECK(other.status == 409);
  CHECK(offset_of(other) == "0");
  CHECK(offset_of(served.put("bytes */" + std::to_string(total - 1), "")) == "0");
  for (const char *unreadable :
       {"bytes 109-100/200", "bytes 100-109/*", "bytes 100-109/105", "bytes */*", "items 100-109/200", "x"}) {
    INFO(unreadable);
    CHECK(served.put(unreadable, ten).status == 400);
  }
  CHECK(served.put(range(100, 109, bytes_max + 1), ten).status == 413);
  CHECK(served.put("bytes */" + std::to_string(bytes_max + 1), "").status == 413);
  CHECK(served.put("bytes */" + std::to_string(total), ten).status == 413);
  CHECK(served.put(range(100, 108, total), ten).status == 413);
  CHECK(served.put("", std::string(bytes_max + 1, 'x')).status == 413);
  CHECK(offset_of(served.put("bytes */" + std::to_string(total), "")) == "100");

  // A body that is shorter than it says is no mistake of the bytes that came.
  CHECK(served.put(range(100, 299, total), served.update.substr(100, 50)).status == 400);
  CHECK(offset_of(served.put("bytes */" + std::to_string(total), "")) == "150");
  CHECK(served.put(range(150, total - 1, total), served.update.substr(150)).status == 200);
  CHECK(served.stored_is_update());
}

TEST_CASE("the newest request has the upload, and another one that still writes is refused") {
  Served served;
  const std::string total = std::to_string(served.update.size());
  const std::uint64_t before = bytes_below(served.folder.path() / "store");
  RawConnection older(served.server.port());
  older.send("PUT " + served.task.upload->url + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + total +
             "\r\n\r\n" + served.update.substr(0, 600'000));
  // A question would end it.
  REQUIRE(eventually([&] { return bytes_below(served.folder.path() / "store") >= before + 100'000; }));
  const std::uint64_t offset = std::stoull(offset_of(served.put("bytes */" + total, "")));
  CHECK(offset >= 100'000);
  CHECK(offset <= 600'000);
  older.send(std::string(300'000, 'x'));
  CHECK(older.receive().starts_with("HTTP/1.1 409"));
  CHECK(
      served.put(range(offset, served.update.size() - 1, served.update.size()), served.update.substr(offset))
          .status == 200);
  CHECK(served.stored_is_update());
}

TEST_CASE("requests for one slot at the same time leave one whole object") {
  Served served;
  std::vector<std::thread> senders;
  std::atomic<int> stored{0};
  for (int sender = 0; sender < 4; ++sender) {
    senders.emplace_back([&] {
      http::HttpClient client;
      for (int i = 0; i < 5; ++i) {
        http::HttpClientRequest request;
        request.method = "PUT";
        request.url = served.server.url() + served.task.upload->url;
        request.body = served.update;
        const int status = client.perform(request).status;
        if (status == 200) ++stored;
        if (status != 200 && status != 409) FAIL_CHECK("status " << status);
      }
    });
  }
  for (std::thread &sender : senders) sender.join();
  CHECK(stored > 0);
  CHECK(served.stored_is_update());
}

TEST_CASE("where the offset has moved since it was told, the upload is tried again") {
  RawListener listener;
  std::thread server([&] {
    listener.accept().receive_until("\r\n\r\n");
    RawConnection connection = listener.accept();
    connection.receive_until("bytes */4");
    connection.send("HTTP/1.1 204 No Content\r\nUpload-Offset: 2\r\n\r\n");
    RawConnection rest = listener.accept();
    rest.receive_until("lf");
    rest.send("HTTP/1.1 409 Conflict\r\nUpload-Offset: 0\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  HttpTransportOptions options;
  options.url = listener.url();
  options.token = "token";
  const auto transport = make_http_transport(options);
  const TemporaryFolder folder;
  const auto file = folder.file("a", "half");
  const auto upload = [&] { transport->upload({"jobs/1/a", 100, "/put"}, file, {}); };
  CHECK(error_of(upload).code() == ErrorCode::unavailable);
  CHECK(error_of(upload).code() == ErrorCode::unavailable);
  server.join();
}

TEST_CASE("a presigned URL of another store gets the whole file each time") {
  RawListener listener;
  std::string second;
  std::thread server([&] {
    listener.accept().receive_until("\r\n\r\n");
    RawConnection connection = listener.accept();
    second = connection.receive_until("half");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  HttpTransportOptions options;
  options.url = "http://127.0.0.1:9";
  options.token = "token";
  const auto transport = make_http_transport(options);
  const TemporaryFolder folder;
  const auto file = folder.file("a", "half");
  const UploadSlot slot{"jobs/1/a", 100, listener.url() + "/bucket/a?X-Amz-Signature=0"};
  CHECK(error_of([&] { transport->upload(slot, file, {}); }).code() == ErrorCode::unavailable);
  transport->upload(slot, file, {});
  server.join();
  CHECK(second.ends_with("half"));
  CHECK(second.find("Content-Range") == std::string::npos);
}

TEST_CASE("partial uploads go when they are idle too long, or their slot is over") {
  Slots slots;
  MovedClock clock;
  transport::PartialUploads uploads(slots.service(), clock);
  const std::string &key = slots.task.upload->key;
  const std::size_t files = files_below(slots.folder.path());

  write(*uploads.begin(slots.worker.id(), key, 10), "abc");
  CHECK(files_below(slots.folder.path()) == files + 1);
  clock.move(limits::kPartialUploadLifetime - std::chrono::seconds(30));
  uploads.sweep();
  CHECK(uploads.standing(key, 10).offset == 3);
  write(*uploads.go_on(slots.worker.id(), key, {3, 9}, 10), "d");
  clock.move(std::chrono::seconds(60));
  uploads.sweep();
  CHECK(uploads.standing(key, 10).offset == 4);
  clock.move(limits::kPartialUploadLifetime);
  uploads.sweep();
  CHECK(uploads.size() == 0);
  CHECK(uploads.standing(key, 10).offset == 0);
  CHECK(files_below(slots.folder.path()) == files);

  const auto writes = uploads.begin(slots.worker.id(), key, 10);
  write(*writes, "abc");
  slots.worker.fail(slots.task, "the test wants it");
  REQUIRE(slots.service().may_write(slots.worker.id(), key) == 0);
  uploads.sweep();
  CHECK(uploads.size() == 0);
  CHECK(error_of([&] { write(*writes, "d"); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { uploads.finish(key, *writes); }).code() == ErrorCode::conflict);
}

TEST_CASE("leftovers of partial uploads go without any request") {
  Slots slots;
  transport::PartialUploads uploads(slots.service(), system::system_runtime(),
                                    {.sweep_interval = std::chrono::milliseconds(10)});
  write(*uploads.begin(slots.worker.id(), "nobodys/slot", 10), "abc");
  CHECK(eventually([&] { return uploads.size() == 0; }));
}

TEST_CASE("partial uploads are bounded in number, and go with their server") {
  Slots slots;
  const std::size_t files = files_below(slots.folder.path());
  {
    MovedClock clock;
    transport::PartialUploads uploads(slots.service(), clock, {.uploads_max = 2});
    const auto begin = [&](const std::string &key) {
      clock.move(std::chrono::seconds(1));
      auto part = uploads.begin(slots.worker.id(), key, 6);
      write(*part, "abc");
      return part;
    };
    const auto a = begin("a");
    begin("b");
    clock.move(std::chrono::seconds(1));
    write(*a, "d");
    begin("c");
    CHECK(uploads.size() == 2);
    CHECK(uploads.standing("b", 6).offset == 0);
    CHECK(uploads.standing("c", 6).offset == 3);
    // One that is under way is not disturbed when it is forgotten.
    begin("d");
    begin("e");
    CHECK(uploads.size() == 2);
    write(*a, "ef");
    CHECK(uploads.finish("a", *a).object.has_value());
    CHECK(slots.small.coordinator->store().stat("a").bytes == 6);
    CHECK(files_below(slots.folder.path()) == files + 3);
  }
  CHECK(files_below(slots.folder.path()) == files + 1);
}

TEST_CASE("an upload of which all is there, but no more, is stored when its sender asks") {
  Slots slots;
  transport::PartialUploads uploads(slots.service());
  const std::string &key = slots.task.upload->key;
  write(*uploads.begin(slots.worker.id(), key, 3), "abc");
  const auto standing = uploads.standing(key, 3);
  REQUIRE(standing.object.has_value());
  CHECK(standing.offset == 3);
  CHECK(standing.object->sha256 == system::sha256_hex("abc"));
  CHECK(uploads.size() == 0);
}
