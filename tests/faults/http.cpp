// Public failure reports about transfers that parsyn must not repeat, each by its number in the list of
// faults.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/errors.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"
#include "support/raw_socket.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;
using std::chrono::milliseconds;

namespace {

std::uint64_t resident_bytes() {
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string head_of(const std::string &fields) { return "HTTP/1.1 200 OK\r\n" + fields + "\r\n"; }

}  // namespace

TEST_CASE("fault 107: a truncated download is an error, with a length and in chunks") {
  const TemporaryFolder folder;
  const std::string body = pattern_bytes(9 << 20);
  for (const bool chunked : {false, true}) {
    INFO(chunked);
    RawServer server([&](RawConnection &connection) {
      connection.receive_until("\r\n\r\n");
      if (chunked) {
        connection.send(head_of("Transfer-Encoding: chunked\r\n") + "900000\r\n" + body + "\r\n");
      } else {
        connection.send(head_of("Content-Length: 10485760\r\n") + body);
      }
      connection.finish_sending();
      connection.ends(milliseconds(5000));
    });
    HttpClient client;
    auto request = get(server.url());
    request.output_file = folder.path() / "download.part";
    CHECK(error_of([&] { client.perform(request); }).code() == ErrorCode::unavailable);
    // What came stays for a resume, under the name of the part only.
    CHECK(std::filesystem::file_size(folder.path() / "download.part") == body.size());
  }
}

TEST_CASE("fault 109: an object replaced between two ranged reads gives one version, never a mix") {
  const TemporaryFolder folder;
  const std::string first = pattern_bytes(100'000);
  const std::string second(120'000, 'n');
  std::atomic<bool> replaced = false;
  HttpServer server({}, {route("GET", "/object", [&](const HttpRequest &, const Responder &respond) {
                      HttpResponse response;
                      response.source = std::make_shared<TextSource>(replaced ? second : first);
                      response.etag = replaced ? "v2" : "v1";
                      respond.send(std::move(response));
                    })});
  HttpClient client;
  auto request = get(server.url() + "/object");
  request.output_file = folder.file("part", first.substr(0, 60'000));
  request.output_offset = 60'000;
  request.headers["If-Range"] = "\"v1\"";
  CHECK(client.perform(request).status == 206);
  CHECK(system::read_text_file(folder.path() / "part", 1 << 20) == first);

  replaced = true;
  CHECK(client.perform(request).status == 200);
  CHECK(system::read_text_file(folder.path() / "part", 1 << 20) == second);

  // A finished download asks for nothing more: the answer is 416, and the file stays as it is.
  request.output_offset = second.size();
  request.headers["If-Range"] = "\"v2\"";
  CHECK(client.perform(request).status == 416);
  CHECK(system::read_text_file(folder.path() / "part", 1 << 20) == second);
}

TEST_CASE("fault 118: a stored encoding is not undone on the way") {
  const std::string stored = "\x1f\x8b\x08" + pattern_bytes(50'000);
  HttpServer server({}, {route("GET", "/weights", [&](const HttpRequest &request, const Responder &respond) {
                      HttpResponse response = text_response(stored);
                      response.headers["Content-Encoding"] = "gzip";
                      response.headers["X-Asked"] = request.header("Accept-Encoding");
                      respond.send(std::move(response));
                    })});
  HttpClient client;
  const auto response = client.perform(get(server.url() + "/weights"));
  CHECK(response.headers.at("X-Asked") == "identity");
  CHECK(response.body == stored);
  CHECK(response.sha256 == system::sha256_hex(stored));
}

TEST_CASE("fault 119: bodies up to the set limit are taken, over it 413, and memory stays flat") {
  const auto sized = [](const std::string &path, std::uint64_t bytes_max) {
    return Route{"POST", path,
                 [bytes_max](HttpRequest &) {
                   BodyPlan plan;
                   plan.bytes_max = bytes_max;
                   return plan;
                 },
                 [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
                   respond.send(text_response(std::to_string(request.body.size())));
                 }};
  };
  HttpServer server(
      {}, {sized("/json", limits::kHttpJsonBytesMax), sized("/report", 64 << 20), sized("/small", 1 << 20)});
  HttpClient client;
  CHECK(client.perform(put(server.url() + "/json", std::string(9 << 10, 'j'), "POST")).body ==
        std::to_string(9 << 10));
  for (const std::size_t size : {2U << 20, 9U << 20, 64U << 20}) {
    CHECK(client.perform(put(server.url() + "/report", std::string(size, 'r'), "POST")).body ==
          std::to_string(size));
  }
  CHECK(client.perform(put(server.url() + "/small", std::string(1 << 20, 's'), "POST")).status == 200);
  CHECK(client.perform(put(server.url() + "/small", std::string((1 << 20) + 1, 's'), "POST")).status == 413);

  // In chunks there is no length to look at: refused as soon as the limit is passed, not after a gigabyte.
  const std::uint64_t before = resident_bytes();
  RawConnection endless(server.port());
  endless.send("POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "100000\r\n" + std::string(1 << 20, 's') + "\r\n";
  std::size_t sent = 0;
  while (sent < (1U << 30) && endless.send(chunk, milliseconds(3000))) sent += chunk.size();
  CHECK(endless.receive().starts_with("HTTP/1.1 413 "));
  CHECK(sent < (64U << 20));
  CHECK(resident_bytes() < before + kSlowness * (64U << 20));
}

TEST_CASE("fault 121: a peer that says nothing ends the request in time, wherever it falls silent") {
  const TemporaryFolder folder;
  const CertificateAuthority authority(folder, "authority");
  HttpClientOptions options = impatient_client();
  options.ca_file = authority.file();
  HttpClient client(options);
  const auto silent_after = [&](const std::string &scheme, const std::string &said,
                                HttpClientRequest request) {
    Event over;
    RawServer server([&](RawConnection &connection) {
      if (!said.empty()) {
        connection.receive_until("\r\n\r\n");
        connection.send(said);
      }
      over.wait();
    });
    request.url = server.url("/", scheme);
    const Stopwatch watch;
    const Error error = error_of([&] { client.perform(request); });
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(watch.elapsed() >= milliseconds(250));
    CHECK(watch.elapsed() < kSlowness * milliseconds(2500));
    over.happen();
  };
  SECTION("in the TLS handshake") { silent_after("https", "", {}); }
  SECTION("before the answer") { silent_after("http", "", {}); }
  SECTION("within the header") { silent_after("http", "HTTP/1.1 200 OK\r\nContent-", {}); }
  SECTION("after the header") { silent_after("http", head_of("Content-Length: 10\r\n"), {}); }
  SECTION("mid-body") { silent_after("http", head_of("Content-Length: 10\r\n") + "12345", {}); }
  SECTION("while a body is sent that it does not read") {
    silent_after("http", "", put("", pattern_bytes(32 << 20)));
  }
  SECTION("at connect: its queue is full, so the system never answers") {
    const int listener = RawConnection::new_socket();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener, reinterpret_cast<const sockaddr *>(&address), size) == 0);
    REQUIRE(::listen(listener, 0) == 0);
    REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size) == 0);
    const RawConnection fills(ntohs(address.sin_port));
    const Stopwatch watch;
    const Error error = error_of(
        [&] { client.perform(get("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/")); });
    ::close(listener);
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(watch.elapsed() < kSlowness * milliseconds(2500));
  }
}

TEST_CASE("fault 122: a slow transfer that moves is not ended by a total time-out, a stalled one is") {
  // The same proportions as 40 s of transfer under a limit of 10 s, faster.
  const std::size_t pieces = 24;
  const std::string piece(2048, 'p');
  for (const bool stalls : {false, true}) {
    INFO(stalls);
    Event over;
    RawServer server([&](RawConnection &connection) {
      connection.receive_until("\r\n\r\n");
      connection.send(head_of("Content-Length: " + std::to_string(pieces * piece.size()) + "\r\n"));
      for (std::size_t i = 0; i < (stalls ? pieces / 2 : pieces); ++i) {
        connection.send(piece);
        connection.receive(milliseconds(50));  // nothing comes: the pace of the line
      }
      over.wait();
    });
    HttpClient client(impatient_client());
    const Stopwatch watch;
    if (stalls) {
      CHECK(error_of([&] { client.perform(get(server.url())); }).code() == ErrorCode::timeout);
      CHECK(watch.elapsed() < kSlowness * milliseconds(4000));
    } else {
      CHECK(client.perform(get(server.url())).body.size() == pieces * piece.size());
      CHECK(watch.elapsed() > milliseconds(900));
    }
    over.happen();
  }
}

TEST_CASE("fault 123: 64 stuck connections do not keep a healthy worker from being served") {
  HttpServerOptions options;
  options.header_timeout = milliseconds(1500);
  options.idle_timeout = milliseconds(1500);
  options.keep_alive_timeout = milliseconds(1500);
  options.handler_threads = 2;
  const std::string weights = pattern_bytes(8 << 20);
  HttpServer server(
      options, {object_route(weights, "v1"),
                ping_route(),
                {"PUT", "/report", {}, [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
                   respond.send(text_response(std::to_string(request.body.size())));
                 }}});
  std::vector<RawConnection> stuck;
  for (int i = 0; i < 64; ++i) {
    stuck.emplace_back(server.port());
    // Some in the header, some in the body, some that ask for much and read nothing.
    if (i % 3 == 0) stuck.back().send("GET /pi");
    if (i % 3 == 1) stuck.back().send("PUT /report HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n1");
    if (i % 3 == 2) stuck.back().send("GET /object HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  HttpClient healthy;
  const Stopwatch watch;
  CHECK(healthy.perform(get(server.url() + "/ping")).body == "pong");
  auto download = get(server.url() + "/object");
  download.response_bytes_max = weights.size();
  CHECK(healthy.perform(download).body == weights);
  CHECK(healthy.perform(put(server.url() + "/report", std::string(1000, 'r'))).body == "1000");
  CHECK(watch.elapsed() < kSlowness * milliseconds(2000));
  for (auto &connection : stuck) CHECK(connection.ends(milliseconds(10'000)));
}

TEST_CASE("fault 125: stop twice, start failed by a taken port, two servers in one process") {
  HttpServer first({}, {ping_route()});
  auto second = std::make_unique<HttpServer>(HttpServerOptions{}, std::vector<Route>{ping_route()});
  CHECK(first.port() != second->port());
  HttpServerOptions taken;
  taken.port = first.port();
  for (int i = 0; i < 3; ++i) {
    CHECK(error_of([&] { HttpServer third(taken, {ping_route()}); }).code() == ErrorCode::unavailable);
  }
  HttpClient client;
  const Stopwatch watch;
  second->stop();
  second->stop();
  second.reset();
  CHECK(watch.elapsed() < limits::kStopBound);
  CHECK(client.perform(get(first.url() + "/ping")).body == "pong");
  first.stop();
  CHECK(error_of([&] { client.perform(get(first.url() + "/ping")); }).code() == ErrorCode::unavailable);
}

TEST_CASE("fault 126: a redirect is not followed, and no secret is in an error or a log line") {
  Event reached;
  HttpServer other({}, {route("GET", "/{rest...}", [&](const HttpRequest &, const Responder &respond) {
                     reached.happen();
                     respond.send({});
                   })});
  Mailbox<std::string> log;
  HttpServerOptions options;
  options.log = [&](const LogRecord &record) { log.put(record.text); };
  HttpServer server(options, {route("GET", "/moved",
                                    [&](const HttpRequest &, const Responder &respond) {
                                      HttpResponse response;
                                      response.status = 302;
                                      response.headers["Location"] = other.url() + "/stolen";
                                      respond.send(std::move(response));
                                    }),
                              route("GET", "/bug", [](auto &&...) { throw std::runtime_error("failed"); })});
  HttpClient client;
  auto request = get(server.url() + "/moved?X-Amz-Signature=very-secret");
  request.headers["Authorization"] = "Bearer hidden-token";
  const auto response = client.perform(request);
  CHECK(response.status == 302);
  CHECK(response.headers.at("Location") == other.url() + "/stolen");
  CHECK(reached.count() == 0);

  request.url = server.url() + "/bug?X-Amz-Signature=very-secret";
  CHECK(client.perform(request).status == 500);
  const auto lines = log.wait(1);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("very-secret") == std::string::npos);
  CHECK(lines[0].find("hidden-token") == std::string::npos);

  server.stop();
  const Error error = error_of([&] { client.perform(request); });
  CHECK(mentions(error, "/bug"));
  CHECK_FALSE(mentions(error, "very-secret"));
  CHECK_FALSE(mentions(error, "hidden-token"));
}

TEST_CASE("fault 135: a broken pipe does not end a host with the default SIGPIPE") {
  // Were the signal raised anywhere, this process would end here.
  struct sigaction before {};
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGPIPE, &by_default, &before) == 0);
  sigset_t mask_before;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);

  const TemporaryFolder folder;
  const CertificateAuthority authority(folder, "authority");
  const auto certificate = authority.issue("server", "IP:127.0.0.1");
  for (const bool tls : {false, true}) {
    INFO(tls);
    HttpServerOptions options;
    if (tls) {
      options.certificate_file = certificate.certificate;
      options.private_key_file = certificate.private_key;
    }
    Event done;
    HttpServer server(options, {route("GET", "/object",
                                      [&](const HttpRequest &, const Responder &respond) {
                                        respond.on_done([&] { done.happen(); });
                                        HttpResponse response;
                                        response.source =
                                            std::make_shared<TextSource>(std::string(32 << 20, 'x'));
                                        respond.send(std::move(response));
                                      }),
                                ping_route()});
    HttpClientOptions client_options;
    if (tls) client_options.ca_file = authority.file();
    HttpClient client(client_options);
    // The client leaves in the middle of a download.
    auto request = get(server.url() + "/object");
    request.on_body = [](std::string_view) { return false; };
    CHECK(client.perform(request).status == 200);
    CHECK(done.wait());
    CHECK(client.perform(get(server.url() + "/ping")).body == "pong");
    // The server leaves in the middle of an upload, and with an idle connection of the client's open.
    server.stop();
    CHECK(error_of([&] {
            client.perform(put(server.url() + "/object", std::string(8 << 20, 'x')));
          }).code() == ErrorCode::unavailable);
    RawServer rude([](RawConnection &connection) {
      connection.receive();
      connection.reset();
    });
    CHECK(error_of([&] { client.perform(put(rude.url(), std::string(8 << 20, 'x'))); }).code() ==
          ErrorCode::unavailable);
  }
  struct sigaction after {};
  ::sigaction(SIGPIPE, &before, &after);
  CHECK(after.sa_handler == SIG_DFL);
  sigset_t mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  CHECK(sigismember(&mask_after, SIGPIPE) == sigismember(&mask_before, SIGPIPE));
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
}

TEST_CASE("fault 135: clients that end at the same time leave the host's SIGPIPE as it was") {
  struct sigaction before {};
  REQUIRE(::sigaction(SIGPIPE, nullptr, &before) == 0);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([] {
        for (int client = 0; client < 20; ++client) {
          try {
            HttpClient().perform(get("http://127.0.0.1:1/"));
          } catch (const Error &) {
            // Nobody listens there.
          }
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
  }
  struct sigaction after {};
  ::sigaction(SIGPIPE, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
}
