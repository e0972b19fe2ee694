// What a peer may not do to the server, sent by hand.
#include <sys/resource.h>

#include <fcntl.h>

#include <string>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"
#include "support/raw_socket.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;
using std::chrono::milliseconds;

namespace {

Route sized_route(std::uint64_t bytes_max) {
  return {"POST", "/sized",
          [bytes_max](HttpRequest &) {
            BodyPlan plan;
            plan.bytes_max = bytes_max;
            return plan;
          },
          [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
            respond.send(text_response("got " + std::to_string(request.body.size()) + " " +
                                       request.body.substr(0, 20)));
          }};
}

int status_of(const std::string &answer) {
  return answer.size() > 12 && answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

/// The answer to `request` on a connection of its own, which the server must close by itself or the request
/// must ask for.
std::string answer_to(const HttpServer &server, const std::string &request) {
  RawConnection connection(server.port());
  connection.send(request);
  return connection.receive_all();
}

}  // namespace

TEST_CASE("inputs that two readers could read in two ways are refused") {
  HttpServer server({}, {sized_route(1 << 20), ping_route()});
  const std::string post = "POST /sized HTTP/1.1\r\nHost: x\r\n";
  const std::string chunks = "\r\n5\r\nhello\r\n0\r\n\r\n";
  struct Case {
    const char *name;
    std::string request;
    int status;
  };
  const std::vector<Case> cases = {
      {"chunked, identity", post + "Transfer-Encoding: chunked, identity\r\n" + chunks, 501},
      {"identity", post + "Transfer-Encoding: identity\r\n\r\n", 501},
      {"gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n" + chunks, 501},
      {"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + chunks, 400},
      {"chunked in HTTP/1.0", "POST /sized HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + chunks,
       400},
      {"length, then chunked", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + chunks, 400},
      {"chunked, then length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" + chunks, 400},
      {"two lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400},
      {"one length twice", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
      {"a list of lengths", post + "Content-Length: 5, 5\r\n\r\nhello", 400},
      {"a signed length", post + "Content-Length: +5\r\n\r\nhello", 400},
      {"a negative length", post + "Content-Length: -5\r\n\r\nhello", 400},
      {"a length beyond 64 bits", post + "Content-Length: 99999999999999999999\r\n\r\nhello", 400},
      {"a space before the colon", post + "Content-Length : 5\r\n\r\nhello", 400},
      {"a bare line feed", "GET /ping HTTP/1.1\nHost: x\n\n", 505},
      {"no host", "GET /ping HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET /ping HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"two tokens", "GET /ping HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", 400},
      {"another version", "GET /ping HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400},
      {"a NUL in the path", "GET /pi%00ng HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"a broken escape", "GET /ping%4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"a hidden parent folder", "GET /a/%2e%2e/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"a query name twice", "GET /ping?a=1&a=2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
      {"an unknown expectation", post + "Expect: a-miracle\r\nContent-Length: 5\r\n\r\nhello", 417},
      {"a bad chunk size", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"a chunk size beyond 64 bits", post + "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", 400},
      {"a chunk longer than it says", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
       400},
  };
  for (const auto &one : cases) {
    INFO(one.name);
    const std::string answer = answer_to(server, one.request);
    INFO(answer);
    CHECK(status_of(answer) == one.status);
    CHECK(answer.find("application/problem+json") != std::string::npos);
    CHECK(answer.find("Content-Length:") ==
          answer.rfind("Content-Length:"));  // exactly one answer: nothing of the body was a request
  }
  CHECK(answer_to(server, post + "Connection: close\r\nTransfer-Encoding: chunked\r\n" + chunks)
            .ends_with("got 5 hello"));
}

TEST_CASE("chunk extensions and trailers have an end") {
  HttpServer server({}, {sized_route(1 << 20)});
  const std::string head =
      "POST /sized HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  SECTION("short ones are read over") {
    const std::string answer =
        answer_to(server, head + "5;a=b;c\r\nhello\r\n0\r\nAuthorization: late\r\n\r\n");
    CHECK(answer.ends_with("got 5 hello"));
  }
  SECTION("one extension of 1 MiB") {
    CHECK(status_of(answer_to(server,
                              head + "5;a=" + std::string(1 << 20, 'x') + "\r\nhello\r\n0\r\n\r\n")) == 400);
  }
  SECTION("a small extension on each of many chunks") {
    std::string body;
    for (int i = 0; i < 200; ++i) body += "1;a=" + std::string(100, 'x') + "\r\nh\r\n";
    CHECK(status_of(answer_to(server, head + body + "0\r\n\r\n")) == 400);
  }
  SECTION("1.2 MB of trailers") {
    std::string trailers;
    for (int i = 0; i < 12'000; ++i)
      trailers += "X-Trailer-" + std::to_string(i) + ": " + std::string(85, 'x') + "\r\n";
    CHECK(status_of(answer_to(server, head + "5\r\nhello\r\n0\r\n" + trailers + "\r\n")) == 400);
  }
}

TEST_CASE("a header has an end, in one field or in many") {
  HttpServer server({}, {ping_route()});
  const std::string line = "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
  CHECK(status_of(answer_to(server, line + "X-A: " + std::string(60'000, 'x') + "\r\n\r\n")) == 200);
  CHECK(status_of(answer_to(server, line + "X-A: " + std::string(70'000, 'x') + "\r\n\r\n")) == 431);
  CHECK(status_of(answer_to(server, "GET /" + std::string(70'000, 'x') + " HTTP/1.1\r\n")) == 431);

  // Endless small fields, each in a packet of its own.
  RawConnection connection(server.port());
  connection.send(line);
  const std::string field = "X-Field: " + std::string(1000, 'x') + "\r\n";
  std::string answer;
  for (int i = 0; i < 200 && answer.empty(); ++i) {
    connection.send(field);
    answer = connection.receive(milliseconds(1));
  }
  CHECK(status_of(answer) == 431);
}

TEST_CASE("a header that comes too slowly is cut, whatever trickles in") {
  HttpServerOptions options;
  options.header_timeout = milliseconds(300);
  HttpServer server(options, {ping_route()});
  RawConnection silent(server.port());
  RawConnection slow(server.port());
  const Stopwatch watch;
  const std::string header = "GET /ping HTTP/1.1\r\nHost: x\r\nX-Slow: " + std::string(1000, 'x');
  std::string answer;
  // One byte every 20 ms or so: always moving, never done.
  for (const char byte : header) {
    slow.send(std::string(1, byte));
    answer = slow.receive(milliseconds(20));
    if (!answer.empty() || watch.elapsed() > milliseconds(5000)) break;
  }
  CHECK(watch.elapsed() >= milliseconds(250));
  CHECK(watch.elapsed() < kSlowness * milliseconds(3000));
  CHECK(status_of(answer) == 408);
  CHECK(slow.ends(milliseconds(5000)));
  CHECK(silent.ends(milliseconds(5000)));
}

TEST_CASE("a body without progress is cut, and handle never sees it") {
  HttpServerOptions options;
  options.idle_timeout = milliseconds(300);
  Event handled;
  HttpServer server(options, {route("POST", "/body", [&](const HttpRequest &, const Responder &respond) {
                      handled.happen();
                      respond.send({});
                    })});
  RawConnection connection(server.port());
  connection.send("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  const std::string answer = connection.receive();
  CHECK(status_of(answer) == 408);
  RawConnection cut(server.port());
  cut.send("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  cut.finish_sending();
  CHECK(cut.ends(milliseconds(5000)));
  CHECK(handled.count() == 0);
}

TEST_CASE("a body that trickles is cut by its average rate, and a slow one that is fast enough is not") {
  HttpServerOptions options;
  options.body_rate_grace = milliseconds(300);
  options.body_rate_min = 1000;
  HttpServer server(options, {sized_route(1 << 20)});
  const std::string head =
      "POST /sized HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n";
  // Bytes a second times the 20 ms between two pieces.
  const auto answer_at_pace = [&](const std::string &piece) {
    RawConnection connection(server.port());
    connection.send(head);
    std::string answer;
    for (std::size_t sent = 0; sent < 20'000 && answer.empty(); sent += piece.size()) {
      connection.send(piece);
      answer = connection.receive(milliseconds(20));
    }
    return answer.empty() ? connection.receive() : answer;
  };
  const Stopwatch watch;
  CHECK(status_of(answer_at_pace("x")) == 408);
  CHECK(watch.elapsed() >= milliseconds(250));
  CHECK(watch.elapsed() < kSlowness * milliseconds(3000));
  const Stopwatch slow;
  CHECK(status_of(answer_at_pace(std::string(400, 'x'))) == 200);
  CHECK(slow.elapsed() > 2 * options.body_rate_grace);
}

TEST_CASE("time that a slow sink takes is not counted as the peer's") {
  class SlowSink final : public ByteSink {
   public:
    void write(std::span<const std::byte>) override { never_.wait(1, milliseconds(150)); }

   private:
    Event never_;
  };
  HttpServerOptions options;
  options.body_rate_grace = milliseconds(50);
  options.body_rate_min = 1 << 20;
  HttpServer server(options, {{"PUT", "/slow",
                               [](HttpRequest &) {
                                 BodyPlan plan;
                                 plan.bytes_max = 1 << 20;
                                 plan.sink = std::make_shared<SlowSink>();
                                 return plan;
                               },
                               [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
                                 respond.send(text_response(std::to_string(request.body_bytes)));
                               }}});
  // 512 KiB in 1.2 s of the sink's: below the rate, if that time were the peer's.
  HttpClient client;
  CHECK(client.perform(put(server.url() + "/slow", std::string(512 << 10, 'x'))).body == "524288");
}

TEST_CASE("the sink of a body that is cut gets all that came of it, in its order") {
  class KeptSink final : public ByteSink {
   public:
    KeptSink(Mailbox<std::string> &kept, Event &begun, Event &moves)
        : kept_(kept), begun_(begun), moves_(moves) {}
    ~KeptSink() override { kept_.put(bytes_); }
    void write(std::span<const std::byte> bytes) override {
      begun_.happen();
      moves_.wait();
      bytes_.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }

   private:
    Mailbox<std::string> &kept_;
    Event &begun_;
    Event &moves_;
    std::string bytes_;
  };
  Mailbox<std::string> kept;
  Event begun;
  Event moves;
  HttpServer server({}, {{"PUT", "/kept",
                          [&](HttpRequest &) {
                            BodyPlan plan;
                            plan.sink = std::make_shared<KeptSink>(kept, begun, moves);
                            return plan;
                          },
                          [](HttpRequest, std::shared_ptr<ByteSink>, Responder) { FAIL_CHECK("handled"); }}});
  // Less than the sink gets at a time; or more, while the sink is still at the first piece.
  const std::string came = pattern_bytes(GENERATE(3, 100'000));
  RawConnection connection(server.port());
  connection.send("PUT /kept HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + came);
  if (came.size() > 3) CHECK(begun.wait());
  connection.finish_sending();
  CHECK(connection.ends(milliseconds(5000)));
  moves.happen();
  const auto all = kept.wait();
  REQUIRE(all.size() == 1);
  CHECK(all.front() == came);
}

TEST_CASE("a client that sends all of a refused body before it reads gets its 413") {
  HttpServer server({}, {sized_route(1000)});
  const std::string body = pattern_bytes(4 << 20);
  const std::string post = "POST /sized HTTP/1.1\r\nHost: x\r\n";
  RawConnection connection(server.port());
  REQUIRE(connection.send(post + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n"));
  for (std::size_t at = 0; at < body.size(); at += 64 << 10)
    REQUIRE(connection.send(body.substr(at, 64 << 10)));
  CHECK(status_of(connection.receive_all()) == 413);
  // What is read over has an end, too.
  RawConnection endless(server.port());
  endless.send(post + "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + body.substr(0, 64 << 10) + "\r\n";
  std::size_t sent = 0;
  while (sent < (64U << 20) && endless.send(chunk, milliseconds(3000))) sent += chunk.size();
  CHECK(sent < (32U << 20));
}

TEST_CASE("a peer that does not read its answer is cut") {
  HttpServerOptions options;
  options.idle_timeout = milliseconds(400);
  const std::string text = pattern_bytes(32 << 20);
  Event done;
  HttpServer server(options, {route("GET", "/object", [&](const HttpRequest &, const Responder &respond) {
                      respond.on_done([&] { done.happen(); });
                      HttpResponse response;
                      response.source = std::make_shared<TextSource>(text);
                      respond.send(std::move(response));
                    })});
  RawConnection stuck(server.port());
  stuck.send("GET /object HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(done.wait());
  // What the sockets' buffers held still comes; the rest never does.
  CHECK(stuck.receive_all(milliseconds(5000)).size() < text.size());
}

TEST_CASE("an idle connection is closed after its time") {
  HttpServerOptions options;
  options.keep_alive_timeout = milliseconds(200);
  HttpServer server(options, {ping_route()});
  RawConnection connection(server.port());
  connection.send("GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(connection.receive().ends_with("pong"));
  CHECK(connection.ends(milliseconds(5000)));
}

TEST_CASE("requests of a pipeline are answered in order") {
  HttpServer server({}, {sized_route(1 << 20), ping_route()});
  RawConnection connection(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += "POST /sized HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n" + std::to_string(100 + i);
  }
  connection.send(requests + "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answers = connection.receive_all();
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = answers.find("got 3 " + std::to_string(100 + i), at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(answers.ends_with("pong"));
}

TEST_CASE("a client that expects 100-continue gets it once accept has approved, and only then") {
  const auto guarded = Route{"PUT", "/guarded",
                             [](HttpRequest &request) {
                               BodyPlan plan;
                               if (request.header("Authorization") != "Bearer right") {
                                 plan.refuse = problem_response(401, "unauthorized", "a token is needed");
                               }
                               return plan;
                             },
                             [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
                               respond.send(text_response("took " + request.body));
                             }};
  HttpServer server({}, {guarded});
  const std::string head =
      "PUT /guarded HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n";
  RawConnection welcome(server.port());
  welcome.send(head + "Authorization: Bearer right\r\n\r\n");
  CHECK(welcome.receive_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  welcome.send("body");
  CHECK(welcome.receive().ends_with("took body"));
  RawConnection refused(server.port());
  refused.send(head + "\r\n");
  CHECK(status_of(refused.receive()) == 401);
}

TEST_CASE("connections over the limit get 503, and places become free again") {
  HttpServerOptions options;
  options.connections_max = 2;
  HttpServer server(options, {ping_route()});
  const std::string ping = "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n";
  RawConnection first(server.port());
  RawConnection second(server.port());
  first.send(ping);
  second.send(ping);
  CHECK(status_of(first.receive()) == 200);
  CHECK(status_of(second.receive()) == 200);
  const std::string answer = answer_to(server, ping);
  CHECK(status_of(answer) == 503);
  CHECK(answer.find("Retry-After") != std::string::npos);
  first.close();
  HttpClient client;
  int status = 503;
  // The server learns of the close a moment later.
  for (int i = 0; i < 1000 && status == 503; ++i) status = client.perform(get(server.url() + "/ping")).status;
  CHECK(status == 200);
}

TEST_CASE("without a free file descriptor the server waits instead of spinning") {
  Mailbox<std::string> log;
  HttpServerOptions options;
  options.log = [&](const LogRecord &record) { log.put(std::string(record.id)); };
  HttpServer server(options, {ping_route()});
  RawConnection connection(RawConnection::new_socket());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  std::vector<int> fillers;
  rlimit few = before;
  few.rlim_cur = 256;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int filler = open("/dev/null", O_RDONLY | O_CLOEXEC); filler >= 0;
       filler = open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    fillers.push_back(filler);
  }
  connection.connect(server.port());
  const auto told = log.wait(1);
  timespec cpu_before{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
  connection.send("GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
  const bool silent = connection.receive(milliseconds(400)).empty();
  timespec cpu_after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
  for (const int filler : fillers) ::close(filler);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(silent);
  CHECK(told == std::vector<std::string>{"http.accept_paused"});
  const double cpu_seconds = static_cast<double>(cpu_after.tv_sec - cpu_before.tv_sec) +
                             1e-9 * static_cast<double>(cpu_after.tv_nsec - cpu_before.tv_nsec);
  CHECK(cpu_seconds < 0.2 * kSlowness);
  CHECK(connection.receive().ends_with("pong"));
}
