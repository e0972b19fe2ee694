// What the client makes of peers that misbehave.
#include <string>
#include <thread>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"
#include "support/raw_socket.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;
using std::chrono::milliseconds;

namespace {

/// The error of one GET to a peer that reads the request and answers these bytes, then closes.
Error error_of_answer(const std::string &answer, HttpClientRequest request = {}) {
  RawServer server([&](RawConnection &connection) {
    connection.receive_until("\r\n\r\n");
    connection.send(answer);
  });
  request.url = server.url("/path?signature=very-secret");
  request.headers["Authorization"] = "Bearer hidden-token";
  HttpClient client(impatient_client());
  const Error error = error_of([&] { client.perform(request); });
  CHECK_FALSE(mentions(error, "very-secret"));
  CHECK_FALSE(mentions(error, "hidden-token"));
  CHECK((mentions(error, "/path") || mentions(error, "/out")));
  return error;
}

}  // namespace

TEST_CASE("answers that are not HTTP, or not whole, are errors with their code") {
  CHECK(error_of_answer("").code() == ErrorCode::unavailable);
  CHECK(error_of_answer("220 smtp ready\r\n").code() == ErrorCode::protocol);
  CHECK(error_of_answer("HTTP/1.1 2").code() == ErrorCode::unavailable);
  CHECK(error_of_answer("HTTP/1.1 200 OK\r\nContent-Le").code() == ErrorCode::unavailable);
  CHECK(error_of_answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n").code() == ErrorCode::unavailable);
  CHECK(error_of_answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").code() == ErrorCode::unavailable);
  CHECK(error_of_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").code() ==
        ErrorCode::unavailable);
  CHECK(error_of_answer("HTTP/1.1 200 OK\r\nX: " + std::string(400 << 10, 'x') + "\r\n\r\n").code() !=
        ErrorCode::internal);
}

TEST_CASE("a partial answer must start where the file ends") {
  const TemporaryFolder folder;
  HttpClientRequest request;
  request.output_file = folder.file("out", "0123456789");
  request.output_offset = 10;
  const auto partial = [](const std::string &headers) {
    return "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n" + headers + "\r\nabc";
  };
  CHECK(error_of_answer(partial("Content-Range: bytes 9-11/12\r\n"), request).code() == ErrorCode::protocol);
  CHECK(error_of_answer(partial("Content-Range: bytes 10-13/14\r\n"), request).code() == ErrorCode::protocol);
  CHECK(error_of_answer(partial(""), request).code() == ErrorCode::protocol);
  CHECK(system::read_text_file(folder.path() / "out", 100) == "0123456789");
  request.output_offset = 11;
  CHECK(error_of_answer(partial("Content-Range: bytes 11-13/14\r\n"), request).code() ==
        ErrorCode::invalid_argument);
}

TEST_CASE("a body over the limit is refused, in memory and in a file") {
  const TemporaryFolder folder;
  HttpServer server({}, {object_route(pattern_bytes(100'000), "v1"),
                         route("GET", "/stream", [](const HttpRequest &, const Responder &respond) {
                           respond.start_stream(200, {});
                           for (int i = 0; i < 100; ++i) respond.write(std::string(1000, 'x'));
                         })});
  HttpClient client;
  for (const char *path : {"/object", "/stream"}) {
    auto request = get(server.url() + path);
    request.response_bytes_max = 99'999;
    CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::too_large);
    request.output_file = folder.path() / "out";
    request.output_bytes_max = 99'999;
    CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::too_large);
    request.output_bytes_max = 100'000;
    CHECK(client.perform(request).body_bytes == 100'000);
  }
}

TEST_CASE(
    "a file that cannot be written is told with the system's reason, and not as one that the server lacks") {
  const TemporaryFolder folder;
  HttpServer server({}, {object_route(pattern_bytes(1000), "v1")});
  HttpClient client;
  auto request = get(server.url() + "/object");
  request.output_file = folder.path() / "no" / "such" / "file";
  const Error missing = error_of([&] { client.perform(request); });
  CHECK(missing.code() == ErrorCode::io);
  CHECK(mentions(missing, "No such file or directory"));
  CHECK(mentions(missing, request.output_file->string()));
  request.output_file = folder.file("a", "file") / "below";
  const Error not_a_folder = error_of([&] { client.perform(request); });
  CHECK(not_a_folder.code() == ErrorCode::io);
  CHECK(mentions(not_a_folder, "Not a directory"));
}

TEST_CASE("nobody listens, no such name, no such scheme") {
  std::uint16_t port = 0;
  { port = RawListener().port(); }
  HttpClient client(impatient_client());
  CHECK(error_of([&] { client.perform(get("http://127.0.0.1:" + std::to_string(port) + "/")); }).code() ==
        ErrorCode::unavailable);
  CHECK(error_of([&] { client.perform(get("ftp://127.0.0.1/")); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { client.perform(get("http://127.0.0.1:notaport/")); }).code() ==
        ErrorCode::invalid_argument);
  auto request = get("http://127.0.0.1:" + std::to_string(port) + "/");
  request.headers["X-Name"] = "a\r\nX-Other: b";
  CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::invalid_argument);
  request = get("http://127.0.0.1/");
  request.method = "GET / HTTP/1.1\r\nX:";
  CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("an early refusal is read while the body is still being sent") {
  for (int round = 0; round < 30; ++round) {
    SECTION("by parsyn's own server, " + std::to_string(round)) {
      const auto refuses = Route{"PUT", "/full",
                                 [](HttpRequest &) {
                                   BodyPlan plan;
                                   plan.refuse = problem_response(507, "io", "no room");
                                   return plan;
                                 },
                                 [](HttpRequest, std::shared_ptr<ByteSink>, Responder) {}};
      HttpServer server({}, {refuses});
      HttpClient client;
      auto request = put(server.url() + "/full", pattern_bytes(16 << 20));
      CHECK(client.perform(request).status == 507);
      request.headers["Expect"] = "";  // as clients that do not ask first
      CHECK(client.perform(request).status == 507);
    }
    SECTION("by a peer that answers and closes at once, " + std::to_string(round)) {
      RawServer server([&](RawConnection &connection) {
        connection.receive();
        connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        connection.close();
      });
      HttpClient client;
      auto request = put(server.url("/"), pattern_bytes(16 << 20));
      request.headers["Expect"] = "";
      const auto response = client.perform(request);
      CHECK(response.status == 403);
      CHECK(response.body == "no");
    }
  }
}

TEST_CASE("interrupt ends running and later requests at once") {
  Mailbox<Responder> parked;
  HttpServer server({}, {route("GET", "/park",
                               [&](const HttpRequest &, const Responder &respond) { parked.put(respond); })});
  HttpClient client;
  Mailbox<ErrorCode> codes;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { codes.put(error_of([&] { client.perform(get(server.url() + "/park")); }).code()); });
  }
  REQUIRE(parked.wait(4).size() == 4);
  const Stopwatch watch;
  client.interrupt();
  for (auto &thread : threads) thread.join();
  CHECK(watch.elapsed() < kSlowness * milliseconds(2000));
  CHECK(codes.wait(4) == std::vector<ErrorCode>(4, ErrorCode::cancelled));
  CHECK(error_of([&] { client.perform(get(server.url() + "/park")); }).code() == ErrorCode::cancelled);
}

TEST_CASE("a request may give its peer longer to think than the client's own limit, and shorter") {
  Mailbox<Responder> parked;
  HttpServer server({}, {route("GET", "/park",
                               [&](const HttpRequest &, const Responder &respond) { parked.put(respond); })});
  HttpClient client(impatient_client());
  auto request = get(server.url() + "/park");
  CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::timeout);
  const Stopwatch watch;
  request.idle_timeout = milliseconds(900);
  CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::timeout);
  CHECK(watch.elapsed() >= milliseconds(850));
}

TEST_CASE("a certificate file that is not there is said when the client is made") {
  HttpClientOptions options;
  options.ca_file = "/nonexistent/ca.pem";
  const Error error = error_of([&] { HttpClient client(options); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(mentions(error, "/nonexistent/ca.pem"));
}
