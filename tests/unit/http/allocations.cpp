// A server whose memory runs out: whichever of its allocations fails, its process lives, and who comes next
// is served.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "support/catch.hpp"
#include "support/http_objects.hpp"

namespace {

/// Of all threads but the test's own: so many allocations until one fails; below 0: none does.
std::atomic<long> allocations_left{-1};
thread_local bool is_test = false;

void *allocate(std::size_t bytes) {
  if (!is_test && allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void *memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void *allocate_or_null(std::size_t bytes) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

}  // namespace

// For the whole of this program, and all of them but the aligned ones: a sanitizer has its own of each that
// is missing here, and what one of them gives must not be freed by these. Not inline, or the compiler sees
// free() called on what new has given, and objects.
void *operator new(std::size_t bytes) { return allocate(bytes); }
void *operator new[](std::size_t bytes) { return allocate(bytes); }
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept { return allocate_or_null(bytes); }
void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept { return allocate_or_null(bytes); }
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void *memory, const std::nothrow_t &) noexcept { std::free(memory); }

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;

namespace {

/// What is asked of the server while an allocation fails: nothing of it has to work.
void ask(const std::string &url, const std::string &what) {
  HttpClient client(impatient_client());
  try {
    if (what == "get") client.perform(get(url + "/ping"));
    if (what == "put") client.perform(put(url + "/sink", std::string(200'000, 'x')));
    if (what == "stream") client.perform(get(url + "/stream"));
    if (what == "object") client.perform(get(url + "/object"));
  } catch (const Error &) {
  }
}

std::vector<Route> routes() {
  Route sink = route("PUT", "/sink", [](const HttpRequest &request, const Responder &respond) {
    respond.send(text_response(request.body_sha256));
  });
  sink.accept = [](HttpRequest &) {
    BodyPlan plan;
    plan.sink = std::make_shared<MemorySink>();
    return plan;
  };
  const auto stream = [](const HttpRequest &, const Responder &respond) {
    respond.on_done([] {});
    respond.start_stream(200, {{"Content-Type", "text/plain"}});
    for (int i = 0; i < 5; ++i) respond.write("a piece that is longer than a string holds in place");
    respond.end_stream();
  };
  return {ping_route(), sink, route("GET", "/stream", stream), object_route(pattern_bytes(400'000), "v1")};
}

}  // namespace

TEST_CASE("whichever allocation of the server fails, it goes on") {
  is_test = true;
  HttpServerOptions options;
  std::atomic<std::size_t> lines{0};
  options.log = [&](const LogRecord &) { ++lines; };
  HttpServer server(options, routes());
  for (const std::string what : {"get", "put", "stream", "object"}) {
    bool all = false;
    for (long at = 0; !all; ++at) {
      INFO(what << ", allocation " << at);
      REQUIRE(at < 1'000);
      allocations_left = at;
      ask(server.url(), what);
      all = allocations_left.exchange(-1) >= 0;
      HttpClient client;
      REQUIRE(client.perform(get(server.url() + "/ping")).body == "pong");
    }
  }
  CHECK(lines > 10);
  server.stop();
  is_test = false;
}
