// What handlers, sinks, sources and logs throw: it ends a request or a connection, and never the process.
#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;

namespace {

[[noreturn]] void fail(const std::string &how) {
  if (how == "memory") throw std::bad_alloc();
  if (how == "runtime") throw std::runtime_error("no luck");
  throw 7;
}

class FailingSink final : public ByteSink {
 public:
  explicit FailingSink(std::string how) : how_(std::move(how)) {}
  void write(std::span<const std::byte>) override { fail(how_); }

 private:
  const std::string how_;
};

/// A server asks for the size on its I/O thread, and for bytes on the handler pool.
class FailingSource final : public ByteSource {
 public:
  FailingSource(std::string how, bool at_size) : how_(std::move(how)), at_size_(at_size) {}
  std::uint64_t size() const override { return at_size_ ? (fail(how_), 0) : 1'000; }
  void read_at(std::uint64_t, std::span<std::byte>) const override { fail(how_); }

 private:
  const std::string how_;
  const bool at_size_;
};

Route source_route(const std::string &path, bool at_size) {
  return route("GET", path + "/{how}", [at_size](const HttpRequest &request, const Responder &respond) {
    HttpResponse response;
    response.source = std::make_shared<FailingSource>(request.parameters.at(0), at_size);
    respond.send(std::move(response));
  });
}

struct Fixture {
  Mailbox<std::string> lines;
  HttpServer server;
  HttpClient client;

  Fixture() : server(options(), routes()) {}

  HttpServerOptions options() {
    HttpServerOptions options;
    options.log = [this](const LogRecord &record) { lines.put(std::string(record.id) + ": " + record.text); };
    return options;
  }
  static std::vector<Route> routes() {
    Route sink = route("PUT", "/sink/{how}", [](const HttpRequest &, const Responder &respond) {
      respond.send(text_response("not reached"));
    });
    sink.accept = [](HttpRequest &request) {
      BodyPlan plan;
      plan.sink = std::make_shared<FailingSink>(request.parameters.at(0));
      return plan;
    };
    Route accept = route("PUT", "/accept/{how}", [](const HttpRequest &, const Responder &) {});
    accept.accept = [](HttpRequest &request) -> BodyPlan { fail(request.parameters.at(0)); };
    const auto handle = [](const HttpRequest &request, const Responder &) { fail(request.parameters.at(0)); };
    const auto done = [](const HttpRequest &request, const Responder &respond) {
      respond.on_done([how = request.parameters.at(0)] { fail(how); });
      respond.send(text_response("answered"));
    };
    return {ping_route(),
            sink,
            accept,
            route("GET", "/handle/{how}", handle),
            route("GET", "/done/{how}", done),
            source_route("/size", true),
            source_route("/read", false)};
  }
  bool lives() { return client.perform(get(server.url() + "/ping")).body == "pong"; }
};

}  // namespace

TEST_CASE(
    "without memory a request is refused as one that may come again; other exceptions are the server's") {
  Fixture fixture;
  const std::string url = fixture.server.url();
  for (const std::string path : {"/sink/", "/accept/", "/handle/"}) {
    const auto status_of = [&](const std::string &how) {
      return fixture.client
          .perform(path == "/handle/" ? get(url + path + how) : put(url + path + how, "body"))
          .status;
    };
    INFO(path);
    CHECK(status_of("memory") == 503);
    CHECK(status_of("runtime") == 500);
    CHECK(status_of("else") == 500);
    CHECK(fixture.lives());
  }
  const auto answer = fixture.client.perform(put(url + "/sink/memory", "body"));
  CHECK(answer.body.find("\"code\":\"unavailable\"") != std::string::npos);
  CHECK(fixture.lines.wait(10).at(0).starts_with("http.no_memory: PUT /sink/memory"));
}

TEST_CASE("what is thrown on an I/O thread ends its connection, and the server goes on") {
  Fixture fixture;
  for (const std::string how : {"memory", "runtime", "else"}) {
    INFO(how);
    const std::string url = fixture.server.url() + "/size/" + how;
    CHECK(error_of([&] { fixture.client.perform(get(url)); }).code() == ErrorCode::unavailable);
    CHECK(fixture.lives());
  }
  // More than three: a request that a kept connection ended is sent once more, on a new one.
  const auto lines = fixture.lines.wait(3);
  REQUIRE(lines.size() >= 3);
  for (const std::string &line : lines) CHECK(line.starts_with("http.connection_failed: 127.0.0.1:"));
  CHECK(std::ranges::any_of(lines, [](const auto &line) { return line.ends_with("failed: no luck"); }));
  fixture.server.stop();
}

TEST_CASE("a source or a callback that throws ends an answer at most") {
  Fixture fixture;
  for (const std::string how : {"memory", "runtime", "else"}) {
    INFO(how);
    const std::string url = fixture.server.url();
    CHECK(error_of([&] { fixture.client.perform(get(url + "/read/" + how)); }).code() ==
          ErrorCode::unavailable);
    CHECK(fixture.client.perform(get(url + "/done/" + how)).body == "answered");
    CHECK(fixture.lives());
  }
  CHECK(fixture.lines.wait(6).size() == 6);
}

TEST_CASE("a log that throws harms nothing") {
  HttpServerOptions options;
  options.log = [](const LogRecord &) { throw std::bad_alloc(); };
  HttpServer server(options, Fixture::routes());
  HttpClient client;
  for (const std::string path : {"/handle/runtime", "/size/memory", "/read/runtime", "/done/memory"}) {
    try {
      client.perform(get(server.url() + path));
    } catch (const Error &) {
    }
    CHECK(client.perform(get(server.url() + "/ping")).body == "pong");
  }
}
