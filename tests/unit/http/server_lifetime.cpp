// Answers that come later, streams, peers that leave, and the ends of a server.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <memory>
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

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;
using std::chrono::milliseconds;

namespace {

const milliseconds kBound = limits::kStopBound;

/// "GET /park" hands its Responder to the test.
Route park_route(Mailbox<Responder> &parked, Event *done = nullptr, const std::string &method = "GET") {
  return route(method, "/park", [&parked, done](const HttpRequest &, const Responder &respond) {
    if (done) respond.on_done([done] { done->happen(); });
    parked.put(respond);
  });
}

bool machine_has_ipv6() {
  const int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool bound = ::bind(descriptor, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
  ::close(descriptor);
  return bound;
}

const std::string kPark = "GET /park HTTP/1.1\r\nHost: x\r\n\r\n";

}  // namespace

TEST_CASE("an answer may come later, from any thread, and counts once") {
  Mailbox<Responder> parked;
  Event done;
  HttpServerOptions options;
  options.handler_threads = 1;
  HttpServer server(options, {park_route(parked, &done), ping_route()});
  std::vector<RawConnection> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.emplace_back(server.port());
    waiting.back().send(kPark);
  }
  const auto responders = parked.wait(20);
  REQUIRE(responders.size() == 20);
  HttpClient client;
  CHECK(client.perform(get(server.url() + "/ping")).body == "pong");  // parked requests hold no thread
  CHECK(done.count() == 0);
  int streams_begun = 0;
  std::thread([&] {
    for (const auto &respond : responders) {
      respond.send(text_response("first"));
      respond.send(text_response("second"));
      streams_begun += respond.start_stream(200, {}) ? 1 : 0;
    }
  }).join();
  CHECK(streams_begun == 0);
  for (auto &connection : waiting) CHECK(connection.receive().ends_with("first"));
  CHECK(done.wait(20));
  Event late;
  responders[0].on_done([&] { late.happen(); });
  CHECK(late.wait());
}

TEST_CASE("a parked request learns at once that its peer has gone") {
  Mailbox<Responder> parked;
  Event done;
  HttpServer server({}, {park_route(parked, &done, "POST")});
  const std::string park = "POST /park HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
  RawConnection leaves(server.port());
  leaves.send(park);
  REQUIRE(parked.wait(1).size() == 1);
  RawConnection resets(server.port());
  resets.send(park);
  REQUIRE(parked.wait(2).size() == 2);
  CHECK(done.count() == 0);
  leaves.close();
  REQUIRE(done.wait(1));
  resets.reset();
  REQUIRE(done.wait(2));
  for (const auto &respond : parked.wait(2)) {
    CHECK_FALSE(respond.start_stream(200, {}));
    respond.send(text_response("into nothing"));
  }
}

TEST_CASE(
    "a peer that has ended its sending side still gets the answer to its GET, but is not waited for long") {
  Mailbox<Responder> parked;
  Event done;
  HttpServerOptions options;
  options.idle_timeout = milliseconds(700);
  const std::string object = pattern_bytes(4 << 20);
  HttpServer server(options, {park_route(parked, &done), object_route(object, "v1")});
  RawConnection reads(server.port());
  reads.send("GET /object HTTP/1.1\r\nHost: x\r\n\r\n");
  reads.finish_sending();
  CHECK(reads.receive_all().ends_with(object));

  RawConnection waits(server.port());
  waits.send(kPark);
  waits.finish_sending();
  REQUIRE(parked.wait(1).size() == 1);
  parked.wait(1)[0].send(text_response("late"));
  CHECK(waits.receive_all().ends_with("late"));
  REQUIRE(done.wait(1));

  const Stopwatch watch;
  RawConnection gone(server.port());
  gone.send(kPark);
  gone.close();
  REQUIRE(done.wait(2));
  CHECK(watch.elapsed() < kSlowness * milliseconds(3000));
}

TEST_CASE("what the general pool's handlers wait for does not hold up the reserved pool's") {
  Event entered;
  Event leave;
  HttpServerOptions options;
  options.handler_threads = 1;
  options.reserved_threads = 1;
  Route busy = route("GET", "/busy", [&](const HttpRequest &, const Responder &respond) {
    entered.happen();
    leave.wait();
    respond.send(text_response("left"));
  });
  Route beat = route("POST", "/beat", [](const HttpRequest &request, const Responder &respond) {
    respond.send(text_response(request.body));
  });
  beat.pool = HandlerPool::reserved;
  CHECK(error_of([&] { HttpServer({}, {beat}); }).code() == ErrorCode::invalid_argument);
  HttpServer server(options, {busy, beat});
  RawConnection blocked(server.port());
  blocked.send("GET /busy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  REQUIRE(entered.wait());
  HttpClient client;
  CHECK(client.perform(put(server.url() + "/beat", "still here", "POST")).body == "still here");
  leave.happen();
  CHECK(blocked.receive_all().ends_with("left"));
}

TEST_CASE("events stream in chunks, in order, until either side ends them") {
  Mailbox<Responder> streams;
  Event done;
  HttpServer server({}, {route("GET", "/events",
                               [&](const HttpRequest &, const Responder &respond) {
                                 respond.on_done([&] { done.happen(); });
                                 if (respond.start_stream(200, {{"Content-Type", "text/event-stream"}}))
                                   streams.put(respond);
                               }),
                         ping_route()});
  HttpClient client;
  auto request = get(server.url() + "/events");

  SECTION("the server ends it, and the connection goes on") {
    int written = 0;
    bool written_late = true;
    std::thread writer([&] {
      const auto respond = streams.wait(1).at(0);
      for (int i = 0; i < 1000; ++i) written += respond.write("data: " + std::to_string(i) + "\n\n") ? 1 : 0;
      respond.end_stream();
      written_late = respond.write("late");
    });
    std::string all;
    request.on_body = [&](std::string_view piece) {
      all += piece;
      return true;
    };
    const auto response = client.perform(request);
    writer.join();
    CHECK(written == 1000);
    CHECK_FALSE(written_late);
    CHECK(response.status == 200);
    CHECK(response.headers.at("Content-Type") == "text/event-stream");
    std::string expected;
    for (int i = 0; i < 1000; ++i) expected += "data: " + std::to_string(i) + "\n\n";
    CHECK(all == expected);
    CHECK(done.wait());
    CHECK(client.perform(get(server.url() + "/ping")).body == "pong");
  }
  SECTION("the client has enough, while nothing is written") {
    std::thread writer([&] { streams.wait(1).at(0).write("data: 1\n\n"); });
    request.on_body = [](std::string_view) { return false; };
    CHECK(client.perform(request).status == 200);
    writer.join();
    CHECK(done.wait());
    CHECK_FALSE(streams.wait(1).at(0).write("data: 2\n\n"));
  }
  SECTION("a client of HTTP/1.0 gets it without chunks") {
    RawConnection old(server.port());
    old.send("GET /events HTTP/1.0\r\n\r\n");
    const auto respond = streams.wait(1).at(0);
    respond.write("data: 1\n\n");
    respond.end_stream();
    CHECK(old.receive_all().ends_with("\r\n\r\ndata: 1\n\n"));
  }
  SECTION("HEAD gets the header only") {
    request.method = "HEAD";
    CHECK(client.perform(request).body_bytes == 0);
    CHECK(client.perform(get(server.url() + "/ping")).body == "pong");
  }
}

TEST_CASE("a stream whose peer does not read is closed when its queue is full") {
  HttpServerOptions options;
  options.stream_queue_bytes_max = 1 << 20;
  Mailbox<Responder> streams;
  Event done;
  HttpServer server(options, {route("GET", "/events", [&](const HttpRequest &, const Responder &respond) {
                      respond.on_done([&] { done.happen(); });
                      respond.start_stream(200, {});
                      streams.put(respond);
                    })});
  RawConnection reader(server.port());
  reader.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto respond = streams.wait(1).at(0);
  const std::string piece(64 << 10, 'x');
  std::size_t written = 0;
  while (written < (256U << 20) && respond.write(piece)) written += piece.size();
  CHECK(written < (64U << 20));
  CHECK(done.wait());
}

TEST_CASE("stop returns within its bound with parked polls, open streams, and half a request") {
  Mailbox<Responder> parked;
  Event done;
  auto server = std::make_unique<HttpServer>(
      HttpServerOptions{},
      std::vector<Route>{park_route(parked, &done),
                         route("GET", "/events", [&](const HttpRequest &, const Responder &respond) {
                           respond.on_done([&] { done.happen(); });
                           respond.start_stream(200, {});
                           respond.write("data: 1\n\n");
                           parked.put(respond);
                         })});
  std::vector<RawConnection> connections;
  for (int i = 0; i < 10; ++i) {
    connections.emplace_back(server->port());
    connections.back().send(kPark);
  }
  connections.emplace_back(server->port());
  connections.back().send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  connections.emplace_back(server->port());
  connections.back().send("POST /half HTTP/1.1\r\nHos");
  const auto responders = parked.wait(11);
  REQUIRE(responders.size() == 11);

  const Stopwatch watch;
  SECTION("stop, twice, from several threads, then destroy") {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { server->stop(); });
    for (auto &thread : threads) thread.join();
    server->stop();
    CHECK(done.count() == 11);
    server.reset();
  }
  SECTION("destroy without stop") { server.reset(); }
  CHECK(watch.elapsed() < kBound);
  CHECK(done.count() == 11);
  for (const auto &respond : responders) {
    respond.send(text_response("too late"));
    CHECK_FALSE(respond.write("too late"));
  }
  for (auto &connection : connections) CHECK(connection.ends(milliseconds(5000)));
  Event late;
  responders[0].on_done([&] { late.happen(); });
  CHECK(late.count() == 1);
}

TEST_CASE("stop waits for the handlers that run") {
  Event entered;
  Event leave;
  std::atomic<bool> left = false;
  HttpServer server({}, {route("GET", "/busy", [&](const HttpRequest &, const Responder &respond) {
                      entered.happen();
                      leave.wait();
                      left = true;
                      respond.send({});
                    })});
  RawConnection connection(server.port());
  connection.send("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(entered.wait());
  bool left_before_stop_returned = false;
  std::thread stopper([&] {
    server.stop();
    left_before_stop_returned = left;
  });
  CHECK(connection.ends(milliseconds(5000)));  // the stop has begun
  leave.happen();
  stopper.join();
  CHECK(left_before_stop_returned);
}

TEST_CASE("a handler may begin the stop of its own server") {
  std::unique_ptr<HttpServer> server;
  Event begun;
  server = std::make_unique<HttpServer>(
      HttpServerOptions{},
      std::vector<Route>{route("GET", "/stop", [&](const HttpRequest &, const Responder &) {
        server->stop();
        begun.happen();
      })});
  RawConnection connection(server->port());
  connection.send("GET /stop HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(begun.wait());
  CHECK(connection.ends(milliseconds(5000)));
  const Stopwatch watch;
  server.reset();
  CHECK(watch.elapsed() < kBound);
}

TEST_CASE("answers race with a stop, and nothing is lost but the answers") {
  for (int round = 0; round < 20; ++round) {
    Mailbox<Responder> parked;
    Event done;
    auto server =
        std::make_unique<HttpServer>(HttpServerOptions{}, std::vector<Route>{park_route(parked, &done)});
    std::vector<RawConnection> connections;
    for (int i = 0; i < 4; ++i) {
      connections.emplace_back(server->port());
      connections.back().send(kPark);
    }
    const auto responders = parked.wait(4);
    REQUIRE(responders.size() == 4);
    std::thread answering([&] {
      for (const auto &respond : responders) respond.send(text_response("x"));
    });
    server.reset();
    answering.join();
    CHECK(done.count() == 4);
  }
}

TEST_CASE("a taken port and a bad address are said in words, and the attempt leaves nothing behind") {
  HttpServer first({}, {ping_route()});
  HttpServerOptions options;
  options.port = first.port();
  const Error taken = error_of([&] { HttpServer second(options, {ping_route()}); });
  CHECK(taken.code() == ErrorCode::unavailable);
  CHECK(mentions(taken, std::to_string(first.port())));
  CHECK(mentions(taken, "in use"));
  options.address = "localhost";
  CHECK(error_of([&] { HttpServer second(options, {}); }).code() == ErrorCode::invalid_argument);
  const auto port = first.port();
  first.stop();
  options.address = "127.0.0.1";
  HttpServer again(options, {ping_route()});
  CHECK(again.port() == port);
  HttpClient client;
  CHECK(client.perform(get(again.url() + "/ping")).body == "pong");
}

TEST_CASE("a server listens on IPv6 as well") {
  if (!machine_has_ipv6()) {
    // Catch2 2 has no skipped tests.
    std::cerr << "SKIPPED: a server listens on IPv6 as well: this machine has no ::1\n";
    return;
  }
  HttpServerOptions options;
  options.address = "::1";
  const HttpServer server(options, {ping_route()});
  CHECK(server.url().starts_with("http://[::1]:"));
  HttpClient client;
  CHECK(client.perform(get(server.url() + "/ping")).body == "pong");
}

TEST_CASE("a stream's writer waits for room, and a slow reader gets everything") {
  Mailbox<Responder> streams;
  Event room;
  HttpServerOptions options;
  options.stream_queue_bytes_max = 64 << 10;
  HttpServer server(options, {route("GET", "/stream", [&](const HttpRequest &, const Responder &respond) {
                      respond.start_stream(200, {});
                      streams.put(respond);
                    })});
  RawConnection reader(server.port());
  reader.send("GET /stream HTTP/1.0\r\n\r\n");
  REQUIRE(streams.wait(1).size() == 1);
  const Responder stream = streams.wait(1)[0];
  CHECK_FALSE(stream.is_full());
  // Nobody reads: what the operating system takes is not waiting, then the queue fills up.
  const std::string piece = pattern_bytes(1 << 10);
  std::string sent;
  std::size_t waits = 0;
  const auto write_until_full = [&] {
    while (!stream.is_full()) {
      REQUIRE(stream.write(piece));
      sent += piece;
    }
    stream.on_room([&] { room.happen(); });
    ++waits;
  };
  write_until_full();
  std::string got = reader.receive_until("\r\n\r\n");
  got.erase(0, got.find("\r\n\r\n") + 4);
  while (waits < 20) {
    while (!room.wait(waits, milliseconds(0))) got += reader.receive(milliseconds(20));
    write_until_full();
  }
  stream.end_stream();
  got += reader.receive_all();
  CHECK(got == sent);
  // Over: who waits is told.
  CHECK(room.wait(waits));
  stream.on_room([&] { room.happen(); });
  CHECK(room.wait(waits + 1));
}

TEST_CASE("a handler sees that nobody waits for its answer any more") {
  Mailbox<Responder> parked;
  Event done;
  const auto park = [&](const HttpRequest &, const Responder &respond) {
    respond.on_done([&] { done.happen(); });
    parked.put(respond);
  };
  HttpServer server({}, {route("POST", "/park", park)});
  const std::string request = "POST /park HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
  RawConnection leaves(server.port());
  leaves.send(request);
  RawConnection stays(server.port());
  REQUIRE(parked.wait(1).size() == 1);
  stays.send(request);
  REQUIRE(parked.wait(2).size() == 2);
  CHECK_FALSE(parked.wait(1)[0].is_gone());
  leaves.close();
  REQUIRE(done.wait(1));
  CHECK(parked.wait(2)[0].is_gone());
  CHECK_FALSE(parked.wait(2)[1].is_gone());
  server.stop();
  CHECK(parked.wait(2)[1].is_gone());
}
