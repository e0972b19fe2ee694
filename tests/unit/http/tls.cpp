// TLS on both sides, with certificates made here.
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <thread>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/errors.hpp"
#include "support/events.hpp"
#include "support/http_objects.hpp"
#include "support/raw_socket.hpp"
#include "support/temporary_folder.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;
using std::chrono::milliseconds;

namespace {

struct Authority {
  TemporaryFolder folder;
  CertificateAuthority authority{folder, "authority"};
  CertificateAuthority::Files server = authority.issue("server", "IP:127.0.0.1,DNS:localhost");

  HttpServerOptions server_options() const {
    HttpServerOptions options;
    options.certificate_file = server.certificate;
    options.private_key_file = server.private_key;
    return options;
  }
  HttpClientOptions client_options() const {
    HttpClientOptions options;
    options.ca_file = authority.file();
    return options;
  }
};

}  // namespace

TEST_CASE("bodies travel both ways over TLS") {
  const Authority pki;
  const std::string text = pattern_bytes((9 << 20) + 5);
  HttpServer server(pki.server_options(),
                    {object_route(text, "v1"),
                     ping_route(),
                     {"PUT", "/digest",
                      [](HttpRequest &) {
                        BodyPlan plan;
                        plan.bytes_max = 1ULL << 30;
                        plan.sink = std::make_shared<MemorySink>();
                        return plan;
                      },
                      [](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
                        respond.send(text_response(request.body_sha256));
                      }}});
  CHECK(server.url().starts_with("https://127.0.0.1:"));
  HttpClient client(pki.client_options());
  auto request = get(server.url() + "/object");
  request.response_bytes_max = 1ULL << 30;
  for (int i = 0; i < 2; ++i) {
    CHECK(client.perform(request).body == text);
    CHECK(client.perform(put(server.url() + "/digest", text)).body == system::sha256_hex(text));
  }
  // The same server under its other name.
  CHECK(client.perform(get("https://localhost:" + std::to_string(server.port()) + "/ping")).body == "pong");
}

TEST_CASE("another authority, another name, and plain HTTP are refused in words") {
  const Authority pki;
  const CertificateAuthority stranger(pki.folder, "stranger");
  HttpServer server(pki.server_options(), {ping_route()});

  HttpClientOptions options;
  options.ca_file = stranger.file();
  const Error unknown = error_of([&] { HttpClient(options).perform(get(server.url() + "/ping?token=abc")); });
  CHECK(unknown.code() == ErrorCode::unauthorized);
  CHECK(mentions(unknown, "certificate"));
  CHECK_FALSE(mentions(unknown, "token"));

  const auto misnamed = pki.authority.issue("misnamed", "DNS:elsewhere.example");
  HttpServerOptions other = pki.server_options();
  other.certificate_file = misnamed.certificate;
  other.private_key_file = misnamed.private_key;
  HttpServer elsewhere(other, {ping_route()});
  HttpClient client(pki.client_options());
  CHECK(error_of([&] { client.perform(get(elsewhere.url() + "/ping")); }).code() == ErrorCode::unauthorized);

  HttpServer plain({}, {ping_route()});
  const std::string port = std::to_string(plain.port());
  const Error no_tls = error_of([&] { client.perform(get("https://127.0.0.1:" + port + "/ping")); });
  CHECK(no_tls.code() == ErrorCode::protocol);
  CHECK(mentions(no_tls, "TLS"));
  CHECK(error_of([&] {
          client.perform(get("http://127.0.0.1:" + std::to_string(server.port()) + "/ping"));
        }).code() == ErrorCode::unavailable);
}

TEST_CASE("a server with a client authority wants a certificate of it, and says so") {
  const Authority pki;
  const CertificateAuthority stranger(pki.folder, "stranger");
  const auto good = pki.authority.issue("worker", "DNS:worker");
  const auto bad = stranger.issue("intruder", "DNS:intruder");
  HttpServerOptions options = pki.server_options();
  options.client_ca_file = pki.authority.file();
  HttpServer server(options, {ping_route()});

  HttpClientOptions mine = pki.client_options();
  mine.certificate_file = good.certificate;
  mine.private_key_file = good.private_key;
  HttpClient welcome(mine);
  for (int i = 0; i < 2; ++i) CHECK(welcome.perform(get(server.url() + "/ping")).body == "pong");
  CHECK(HttpClient(mine).perform(get(server.url() + "/ping")).body == "pong");

  const Error none = error_of([&] { HttpClient(pki.client_options()).perform(get(server.url() + "/ping")); });
  CHECK(none.code() == ErrorCode::unauthorized);
  CHECK(mentions(none, "none was given"));

  mine.certificate_file = bad.certificate;
  mine.private_key_file = bad.private_key;
  CHECK(error_of([&] { HttpClient(mine).perform(get(server.url() + "/ping")); }).code() ==
        ErrorCode::unauthorized);
}

TEST_CASE("a certificate that does not fit its key stops the server from starting") {
  const Authority pki;
  const auto other = pki.authority.issue("other", "DNS:other");
  HttpServerOptions options = pki.server_options();
  options.private_key_file = other.private_key;
  const Error error = error_of([&] { HttpServer server(options, {}); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(mentions(error, "other.key"));
  options.private_key_file = pki.folder.file("garbage.key", "no key");
  CHECK(error_of([&] { HttpServer server(options, {}); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("TLS 1.1 is refused by the server") {
  const Authority pki;
  HttpServer server(pki.server_options(), {ping_route()});
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX *)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_1_VERSION);
  RawConnection connection(server.port());
  const std::unique_ptr<SSL, void (*)(SSL *)> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_fd(ssl.get(), connection.descriptor());
  CHECK(SSL_connect(ssl.get()) != 1);
}

TEST_CASE("a handshake that never comes is cut") {
  const Authority pki;
  HttpServerOptions options = pki.server_options();
  options.header_timeout = milliseconds(200);
  HttpServer server(options, {ping_route()});
  RawConnection connection(server.port());
  connection.send("\x16\x03\x01");
  CHECK(connection.ends(milliseconds(5000)));
}

TEST_CASE("an early refusal over TLS is read, and a stop with parked requests keeps its bound") {
  const Authority pki;
  Mailbox<Responder> parked;
  Event done;
  auto server = std::make_unique<HttpServer>(
      pki.server_options(),
      std::vector<Route>{{"PUT", "/refused",
                          [](HttpRequest &) {
                            BodyPlan plan;
                            plan.refuse = problem_response(403, "forbidden", "not this");
                            return plan;
                          },
                          [](HttpRequest, std::shared_ptr<ByteSink>, Responder) {}},
                         route("GET", "/park", [&](const HttpRequest &, const Responder &respond) {
                           respond.on_done([&] { done.happen(); });
                           parked.put(respond);
                         })});
  HttpClient client(pki.client_options());
  for (int i = 0; i < 10; ++i) {
    auto request = put(server->url() + "/refused", pattern_bytes(8 << 20));
    request.headers["Expect"] = "";
    CHECK(client.perform(request).status == 403);
  }
  ErrorCode code = ErrorCode::ok;
  const auto park = get(server->url() + "/park");
  std::thread waiting([&] { code = error_of([&] { client.perform(park); }).code(); });
  REQUIRE(parked.wait(1).size() == 1);
  const Stopwatch watch;
  server->stop();
  CHECK(watch.elapsed() < limits::kStopBound);
  CHECK(done.count() == 1);
  waiting.join();
  CHECK(code == ErrorCode::unavailable);
}
