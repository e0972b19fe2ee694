// The simulated network keeps the contracts of HttpServer and HttpClient.
#include "sim/network.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parsyn/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/http_objects.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"

using namespace parsyn;
using namespace parsyn::sim;

namespace {

/// A server "server" and a client "client", each on its machine.
struct Pair {
  explicit Pair(std::uint64_t seed = 1)
      : world(seed), network(world), server(world, "server"), client(world, "client") {}

  /// The client's process does this; the test goes on when it has.
  void run(const std::function<void(http::Requester &)> &body, const http::HttpClientOptions &options = {}) {
    bool done = false;
    client.start_process([&] {
      const auto requester = network.client(client, "client", options);
      body(*requester);
      done = true;
    });
    REQUIRE(world.run(world.now() + std::chrono::hours(1), [&] { return done; }));
  }
  void serve(std::vector<http::Route> routes) { network.listen("server", server, std::move(routes)); }

  World world;
  Network network;
  Machine server;
  Machine client;
};

/// Counts requests, and keeps them all waiting.
http::Route parking_route(std::vector<http::Responder> &parked, int &gone) {
  return test::route("GET", "/wait", [&](const http::HttpRequest &, const http::Responder &respond) {
    parked.push_back(respond);
    respond.on_done([&gone] { ++gone; });
  });
}

constexpr char kPing[] = "http://server:80/ping";
constexpr char kWait[] = "http://server/wait";

}  // namespace

TEST_CASE("a request is answered, and what no route matches is told so") {
  Pair pair;
  pair.serve({test::ping_route()});
  pair.run([](http::Requester &client) {
    const auto pong = client.perform(test::get(kPing));
    CHECK(pong.status == 200);
    CHECK(pong.body == "pong");
    CHECK(client.perform(test::get("http://server/nothing")).status == 404);
    CHECK(client.perform(test::put(kPing, "x")).status == 405);
    CHECK(test::error_of([&] { client.perform(test::get("http://elsewhere/ping")); }).code() ==
          ErrorCode::unavailable);
    CHECK(test::error_of([&] { client.perform(test::get("ftp://server/ping")); }).code() ==
          ErrorCode::invalid_argument);
  });
}

TEST_CASE("a killed server is unavailable at once, and its successor answers") {
  Pair pair;
  std::vector<http::Responder> parked;
  int gone = 0;
  pair.serve({parking_route(parked, gone)});
  pair.world.at(Time(100), [&] { pair.server.kill(); });
  pair.run([&](http::Requester &client) {
    const Error error = test::error_of([&] { client.perform(test::get(kWait)); });
    CHECK(error.code() == ErrorCode::unavailable);
    CHECK(pair.world.now() < Time(200));
    CHECK(parked.size() == 1);
    CHECK(test::error_of([&] { client.perform(test::get(kWait)); }).code() == ErrorCode::unavailable);
    pair.serve({test::ping_route()});
    CHECK(client.perform(test::get(kPing)).body == "pong");
  });
  CHECK(gone == 0);
}

TEST_CASE("a parked Responder learns that its client has gone") {
  Pair pair;
  std::vector<http::Responder> parked;
  int gone = 0;
  pair.serve({parking_route(parked, gone)});

  SECTION("by a kill") {
    pair.world.at(Time(100), [&] { pair.client.kill(); });
    pair.client.start_process([&] { pair.network.client(pair.client, "client")->perform(test::get(kWait)); });
    CHECK(pair.world.run(Time(200), [&] { return gone == 1; }));
  }
  SECTION("by an interrupt") {
    pair.run([&](http::Requester &client) {
      const auto interrupter = pair.client.start([&] {
        pass_time(pair.world, Time(100));
        client.interrupt();
      });
      CHECK(test::error_of([&] { client.perform(test::get(kWait)); }).code() == ErrorCode::cancelled);
    });
    CHECK(pair.world.run(Time(200), [&] { return gone == 1; }));
  }
  SECTION("by a time-out") {
    http::HttpClientRequest request = test::get(kWait);
    request.idle_timeout = std::chrono::milliseconds(60'000);
    pair.run([&](http::Requester &client) {
      CHECK(test::error_of([&] { client.perform(request); }).code() == ErrorCode::timeout);
      CHECK(pair.world.now() >= Time(60'000));
      CHECK(pair.world.now() < Time(61'000));
    });
    CHECK(pair.world.run(Time(62'000), [&] { return gone == 1; }));
  }
  REQUIRE(parked.size() == 1);
  parked.front().send(test::text_response("too late"));
}

TEST_CASE("a partition of one direction makes requests time out until it is healed") {
  Pair pair;
  int handled = 0;
  pair.serve({test::route("POST", "/count", [&](const http::HttpRequest &, const http::Responder &respond) {
    ++handled;
    respond.send(test::text_response("ok"));
  })});
  const auto request = test::put("http://server/count", "1", "POST");
  const bool there = GENERATE(false, true);
  pair.network.partition(there ? "client" : "server", there ? "server" : "client", true);
  pair.run([&](http::Requester &client) {
    CHECK(test::error_of([&] { client.perform(request); }).code() == ErrorCode::timeout);
    pair.network.calm();
    CHECK(client.perform(request).body == "ok");
  });
  CHECK(handled >= 1);
}

TEST_CASE("a repeated request is done twice and answered once") {
  Pair pair;
  int handled = 0;
  pair.serve(
      {test::route("POST", "/count", [&](const http::HttpRequest &request, const http::Responder &respond) {
        CHECK(request.body == "1");
        respond.send(test::text_response(std::to_string(++handled)));
      })});
  Network::Faults faults;
  faults.duplicate = 1'000;
  pair.network.set_faults("client", "server", faults);
  pair.run([&](http::Requester &client) { client.perform(test::put("http://server/count", "1", "POST")); });
  CHECK(pair.world.run(pair.world.now() + Time(1'000), [&] { return handled == 2; }));
}

TEST_CASE("a download that is cut leaves what has come, and is gone on with") {
  const test::TemporaryFolder folder;
  const std::string bytes = test::pattern_bytes(100'000);
  int cut = 0;
  int resumed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Pair pair(seed);
    const auto source = std::make_shared<test::TextSource>(bytes);
    pair.serve({test::route("GET", "/object", [&](const http::HttpRequest &, const http::Responder &respond) {
      http::HttpResponse response;
      response.headers["Content-Type"] = "application/octet-stream";
      response.source = source;
      response.etag = "one";
      respond.send(std::move(response));
    })});
    Network::Faults faults;
    faults.cut = 700;
    pair.network.set_faults("server", "client", faults);
    const auto file = folder.path() / std::to_string(seed);
    pair.run([&](http::Requester &client) {
      for (;;) {
        http::HttpClientRequest request = test::get("http://server/object");
        request.output_file = file;
        request.output_offset = std::filesystem::exists(file) ? std::filesystem::file_size(file) : 0;
        try {
          const auto response = client.perform(request);
          CHECK(response.status == (request.output_offset > 0 ? 206 : 200));
          resumed += request.output_offset > 0;
          return;
        } catch (const Error &error) {
          CHECK(error.code() == ErrorCode::unavailable);
          ++cut;
        }
        if (std::filesystem::exists(file) && std::filesystem::file_size(file) == bytes.size()) return;
      }
    });
    CHECK(system::read_text_file(file, bytes.size()) == bytes);
  }
  CHECK(cut > 10);
  CHECK(resumed > 5);
}

TEST_CASE("a body that is cut never comes to its handler, and its sink is let go") {
  struct Sink final : ByteSink {
    explicit Sink(int &of) : open(of) { ++open; }
    ~Sink() override { --open; }
    void write(std::span<const std::byte>) override {}
    int &open;
  };
  Pair pair;
  int open = 0;
  int handled = 0;
  int begun = 0;
  http::Route put = test::route("PUT", "/object", {});
  put.accept = [&](http::HttpRequest &) {
    ++begun;
    http::BodyPlan plan;
    plan.bytes_max = 100'000;
    plan.sink = std::make_shared<Sink>(open);
    return plan;
  };
  put.handle = [&](const http::HttpRequest &request, const std::shared_ptr<ByteSink> &,
                   const http::Responder &respond) {
    CHECK(request.body_bytes == 50'000);
    ++handled;
    respond.send(test::text_response("ok"));
  };
  pair.serve({put});
  auto request = test::put("http://server/object", test::pattern_bytes(50'000));
  request.headers["Content-Type"] = "application/octet-stream";
  Network::Faults faults;
  faults.cut = 1'000;
  pair.network.set_faults("client", "server", faults);
  pair.run([&](http::Requester &client) {
    for (int i = 0; i < 20; ++i)
      CHECK(test::error_of([&] { client.perform(request); }).code() == ErrorCode::unavailable);
    pair.network.calm();
    CHECK(client.perform(request).status == 200);
    request.body = test::pattern_bytes(200'000);
    CHECK(client.perform(request).status == 413);
  });
  CHECK(handled == 1);
  CHECK(begun > 5);
  CHECK(pair.world.run(pair.world.now() + Time(1'000), [&] { return open == 0; }));
}
