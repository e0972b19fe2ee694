// Client and server together: what is sent arrives.
#include <atomic>
#include <fstream>
#include <thread>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;

namespace {

std::string file_text(const std::filesystem::path &path) { return system::read_text_file(path, 1ULL << 30); }

/// "ANY /echo" answers what came, and says it in headers.
Route echo_route(const std::string &method) {
  return {method, "/echo/{name}",
          [](HttpRequest &) {
            BodyPlan plan;
            plan.bytes_max = 256ULL << 20;
            return plan;
          },
          [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
            HttpResponse response = text_response(std::move(request.body), 201);
            response.headers["X-Method"] = request.method;
            response.headers["X-Name"] = request.parameters.at(0);
            response.headers["X-Query"] = request.query["q"];
            response.headers["X-Bytes"] = std::to_string(request.body_bytes);
            response.headers["X-Peer"] = request.peer;
            response.headers["X-Encoding"] = request.header("accept-encoding");
            respond.send(std::move(response));
          }};
}

/// "PUT /store" streams the body into a file that exists once it is complete.
Route store_route(const std::filesystem::path &path) {
  return {"PUT", "/store",
          [path](HttpRequest &) {
            BodyPlan plan;
            plan.bytes_max = 1ULL << 30;
            plan.sink = std::make_shared<system::AtomicFile>(path);
            return plan;
          },
          [](HttpRequest request, std::shared_ptr<ByteSink> sink, Responder respond) {
            dynamic_cast<system::AtomicFile &>(*sink).commit();
            respond.send(text_response(request.body_sha256 + " " + std::to_string(request.body_bytes)));
          }};
}

}  // namespace

TEST_CASE("a body in memory arrives, with method, path, query and headers") {
  HttpServer server({}, {echo_route("POST"), echo_route("DELETE")});
  HttpClient client;
  for (const std::size_t size : {0UL, 1UL, 9UL << 10, 100UL << 10, 2UL << 20, 9UL << 20, 64UL << 20}) {
    INFO(size);
    const std::string body = pattern_bytes(size);
    auto request = put(server.url() + "/echo/a%20b?q=x%3Dy", body, "POST");
    request.response_bytes_max = 256ULL << 20;
    const auto response = client.perform(request);
    CHECK(response.status == 201);
    CHECK(response.body == body);
    CHECK(response.body_bytes == size);
    CHECK(response.sha256 == system::sha256_hex(body));
    CHECK(response.headers.at("x-bytes") == std::to_string(size));
    CHECK(response.headers.at("X-Method") == "POST");
    CHECK(response.headers.at("X-Name") == "a b");
    CHECK(response.headers.at("X-Query") == "x=y");
    CHECK(response.headers.at("X-Peer").starts_with("127.0.0.1:"));
    CHECK(response.headers.at("X-Encoding") == "identity");
    CHECK(response.headers.at("Date").ends_with(" GMT"));
  }
  CHECK(client.perform(put(server.url() + "/echo/x", "abc", "DELETE")).body == "abc");
  CHECK(client.perform(put(server.url() + "/echo/x", "", "DELETE")).headers.at("X-Bytes") == "0");
}

TEST_CASE("requests of one client reuse its connection") {
  Mailbox<std::string> peers;
  HttpServer server({}, {route("GET", "/", [&](const HttpRequest &request, const Responder &respond) {
                      peers.put(request.peer);
                      respond.send(text_response("x"));
                    })});
  HttpClient client;
  for (int i = 0; i < 3; ++i) CHECK(client.perform(get(server.url() + "/")).status == 200);
  const auto seen = peers.wait(3);
  REQUIRE(seen.size() == 3);
  CHECK(seen[0] == seen[1]);
  CHECK(seen[1] == seen[2]);
}

TEST_CASE("a body streams from a file into a sink, with its digest on the way") {
  const TemporaryFolder folder;
  HttpServer server({}, {store_route(folder.path() / "stored")});
  HttpClient client;
  for (const std::size_t size : {0UL, 5UL, (1UL << 20) + 3, 20UL << 20}) {
    INFO(size);
    const std::string bytes = pattern_bytes(size);
    auto request = put(server.url() + "/store", "");
    request.body_file = folder.file("sent", bytes);
    CHECK(client.perform(request).body == system::sha256_hex(bytes) + " " + std::to_string(size));
    CHECK(file_text(folder.path() / "stored") == bytes);
  }
  const std::string bytes = pattern_bytes(100'000);
  auto request = put(server.url() + "/store", "");
  request.body_file = folder.file("sent", bytes);
  request.body_offset = 99'990;
  CHECK(client.perform(request).status == 200);
  CHECK(file_text(folder.path() / "stored") == bytes.substr(99'990));
  request.body_offset = 100'001;
  CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::invalid_argument);
  request.body_file = folder.path() / "absent";
  CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::not_found);
}

TEST_CASE("a sink that throws answers 507 or 413, and handle is not called") {
  class Full final : public ByteSink {
   public:
    explicit Full(ErrorCode code) : code_(code) {}
    void write(std::span<const std::byte>) override { throw Error(code_, "no room"); }

   private:
    const ErrorCode code_;
  };
  std::atomic<int> handled = 0;
  const auto full = [&](const std::string &path, ErrorCode code) {
    return Route{"PUT", path,
                 [code](HttpRequest &) {
                   BodyPlan plan;
                   plan.sink = std::make_shared<Full>(code);
                   return plan;
                 },
                 [&](HttpRequest, std::shared_ptr<ByteSink>, Responder) { ++handled; }};
  };
  HttpServer server({}, {full("/full", ErrorCode::io), full("/large", ErrorCode::too_large)});
  HttpClient client;
  CHECK(client.perform(put(server.url() + "/full", pattern_bytes(3 << 20))).status == 507);
  CHECK(client.perform(put(server.url() + "/large", pattern_bytes(3 << 20))).status == 413);
  CHECK(handled == 0);
}

TEST_CASE("an object is downloaded whole, in part, on a condition, and by HEAD") {
  const std::string text = pattern_bytes((3 << 20) + 17);
  HttpServer server({}, {object_route(text, "v1")});
  HttpClient client;
  const std::string url = server.url() + "/object";

  const auto whole = client.perform(get(url));
  CHECK(whole.status == 200);
  CHECK(whole.body == text);
  CHECK(whole.headers.at("Accept-Ranges") == "bytes");

  auto request = get(url);
  request.headers["Range"] = "bytes=1000000-2000000";
  const auto part = client.perform(request);
  CHECK(part.status == 206);
  CHECK(part.body == text.substr(1'000'000, 1'000'001));
  CHECK(part.headers.at("Content-Range") == "bytes 1000000-2000000/" + std::to_string(text.size()));

  request.headers["Range"] = "bytes=99999999-";
  const auto outside = client.perform(request);
  CHECK(outside.status == 416);
  CHECK(outside.headers.at("Content-Type") == "application/problem+json");

  request = get(url);
  request.headers["If-None-Match"] = "\"v1\"";
  const auto unchanged = client.perform(request);
  CHECK(unchanged.status == 304);
  CHECK(unchanged.body.empty());
  CHECK(client.perform(get(url)).status == 200);  // the connection is still in step

  request = get(url);
  request.method = "HEAD";
  const auto head = client.perform(request);
  CHECK(head.status == 200);
  CHECK(head.body_bytes == 0);
  CHECK(head.headers.at("Content-Length") == std::to_string(text.size()));
  CHECK(client.perform(get(url)).body == text);
}

TEST_CASE("a download goes on in its file where it was cut") {
  const TemporaryFolder folder;
  const std::string text = pattern_bytes(3'000'000);
  HttpServer server({}, {object_route(text, "v1")});
  HttpClient client;
  auto request = get(server.url() + "/object");

  SECTION("from the start: what the file held is gone") {
    request.output_file = folder.file("out", pattern_bytes(4'000'000));
    const auto response = client.perform(request);
    CHECK(response.body.empty());
    CHECK(response.body_bytes == text.size());
    CHECK(response.sha256 == system::sha256_hex(text));
  }
  SECTION("with an unchanged ETag: only the rest travels, and what lies behind the offset is cut") {
    request.output_file = folder.file("out", text.substr(0, 1'000'000) + "wrong bytes behind it");
    request.output_offset = 1'000'000;
    request.headers["If-Range"] = "\"v1\"";
    const auto response = client.perform(request);
    CHECK(response.status == 206);
    CHECK(response.body_bytes == 2'000'000);
    CHECK(response.sha256 == system::sha256_hex(std::string_view(text).substr(1'000'000)));
  }
  SECTION("with another ETag: the whole object, from byte 0") {
    request.output_file = folder.file("out", std::string(1'000'000, 'x'));
    request.output_offset = 1'000'000;
    request.headers["If-Range"] = "\"v0\"";
    CHECK(client.perform(request).status == 200);
  }
  CHECK(file_text(folder.path() / "out") == text);
}

TEST_CASE("a file is touched by a successful answer only") {
  const TemporaryFolder folder;
  HttpServer server(
      {}, {route("GET", "/empty", [](const HttpRequest &, const Responder &respond) { respond.send({}); })});
  HttpClient client;
  auto request = get(server.url() + "/absent");
  request.output_file = folder.file("out", "before");
  const auto refused = client.perform(request);
  CHECK(refused.status == 404);
  CHECK(refused.body.find("not_found") != std::string::npos);
  CHECK(file_text(folder.path() / "out") == "before");

  request.url = server.url() + "/empty";
  CHECK(client.perform(request).status == 200);
  CHECK(file_text(folder.path() / "out").empty());
}

TEST_CASE("what no route matches is a problem document") {
  HttpServer server({}, {ping_route(), echo_route("POST")});
  HttpClient client;
  const auto absent = client.perform(get(server.url() + "/nothing?secret=1"));
  CHECK(absent.status == 404);
  CHECK(absent.body.find("\"code\":\"not_found\"") != std::string::npos);
  CHECK(absent.body.find("secret") == std::string::npos);
  const auto wrong = client.perform(put(server.url() + "/ping", "abc"));
  CHECK(wrong.status == 405);
  CHECK(wrong.headers.at("Allow") == "GET, HEAD");
  CHECK(client.perform(get(server.url() + "/ping")).body == "pong");
}

TEST_CASE("what accept or handle throws is an answer") {
  const auto throws_in_accept =
      Route{"PUT", "/accept", [](HttpRequest &) -> BodyPlan { throw Error(ErrorCode::forbidden, "not you"); },
            [](HttpRequest, std::shared_ptr<ByteSink>, Responder) {}};
  Mailbox<std::string> log;
  HttpServerOptions options;
  options.log = [&](const LogRecord &record) { log.put(record.text); };
  HttpServer server(
      options,
      {throws_in_accept, route("GET", "/error", [](auto &&...) { throw Error(ErrorCode::conflict, "busy"); }),
       route("GET", "/bug", [](auto &&...) { throw std::runtime_error("a pointer was null"); }),
       route("GET", "/forgotten", [](auto &&...) {})});
  HttpClient client;
  CHECK(client.perform(put(server.url() + "/accept", "body")).status == 403);
  CHECK(client.perform(put(server.url() + "/accept", "")).status == 403);
  CHECK(client.perform(get(server.url() + "/error")).status == 409);
  const auto bug = client.perform(get(server.url() + "/bug"));
  CHECK(bug.status == 500);
  CHECK(bug.body.find("pointer") == std::string::npos);
  const auto lines = log.wait(1);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "GET /bug: a pointer was null");
  CHECK(client.perform(get(server.url() + "/forgotten")).status == 500);
}

TEST_CASE("perform may be called from several threads at once") {
  HttpServer server({}, {echo_route("POST")});
  HttpClient client;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) {
        const std::string body = pattern_bytes(static_cast<std::size_t>(1000 * i + j));
        if (client.perform(put(server.url() + "/echo/x", body, "POST")).body == body) ++good;
      }
    });
  }
  for (auto &thread : threads) thread.join();
  CHECK(good == 160);
}

TEST_CASE("progress is told, and may end the transfer") {
  const std::string text = pattern_bytes(64 << 10);
  Mailbox<Responder> streams;
  HttpServer server({}, {route("GET", "/slow", [&](const HttpRequest &, const Responder &respond) {
                      respond.start_stream(200, {});
                      respond.write(pattern_bytes(1000));
                      streams.put(respond);
                    })});
  HttpClient client;
  auto request = get(server.url() + "/slow");
  std::uint64_t received_at_end = 0;
  request.progress = [&](std::uint64_t sent, std::uint64_t received) {
    CHECK(sent == 0);
    received_at_end = received;
    return received < 1000;
  };
  const Error error = error_of([&] { client.perform(request); });
  CHECK(error.code() == ErrorCode::cancelled);
  CHECK(received_at_end == 1000);
}
