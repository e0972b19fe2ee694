// The pieces without sockets: ranges, targets, routes, conditions, problem documents, URLs.
#include "http/answer_plan.hpp"
#include "http/byte_range.hpp"
#include "http/client_url.hpp"
#include "http/http_server.hpp"
#include "http/request_target.hpp"
#include "http/response_head.hpp"
#include "http/router.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/http_objects.hpp"

using namespace parsyn;
using namespace parsyn::http;
using namespace parsyn::test;

TEST_CASE("one range of bytes is a part, and what is not one is ignored") {
  using Kind = RangeRequest::Kind;
  const auto part = [](std::string_view header, std::uint64_t size) {
    const auto parsed = parse_range(header, size);
    REQUIRE(parsed.kind == Kind::part);
    return std::pair(parsed.range.first, parsed.range.last);
  };
  CHECK(part("bytes=0-0", 10) == std::pair<std::uint64_t, std::uint64_t>(0, 0));
  CHECK(part("bytes=2-5", 10) == std::pair<std::uint64_t, std::uint64_t>(2, 5));
  CHECK(part("BYTES=2-", 10) == std::pair<std::uint64_t, std::uint64_t>(2, 9));
  CHECK(part("bytes=2-999", 10) == std::pair<std::uint64_t, std::uint64_t>(2, 9));
  CHECK(part("bytes=-3", 10) == std::pair<std::uint64_t, std::uint64_t>(7, 9));
  CHECK(part("bytes=-30", 10) == std::pair<std::uint64_t, std::uint64_t>(0, 9));
  CHECK(parse_range("bytes=10-", 10).kind == Kind::unsatisfiable);
  CHECK(parse_range("bytes=-0", 10).kind == Kind::unsatisfiable);
  CHECK(parse_range("bytes=0-", 0).kind == Kind::unsatisfiable);
  for (const char *ignored : {"", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=1-2,4-5", "items=1-2",
                              "bytes=a-b", "bytes=+1-2", "bytes=1-99999999999999999999999"}) {
    INFO(ignored);
    CHECK(parse_range(ignored, 10).kind == Kind::whole);
  }
}

TEST_CASE("a Content-Range is read whole or not at all") {
  const auto parsed = parse_content_range("bytes 5-9/10");
  REQUIRE(parsed);
  CHECK(parsed->range.first == 5);
  CHECK(parsed->range.last == 9);
  CHECK(parsed->size == 10U);
  CHECK_FALSE(parse_content_range("bytes 5-9/*")->size);
  for (const char *bad :
       {"", "bytes */10", "bytes 5-9", "bytes 9-5/10", "bytes 5-10/10", "items 5-9/10", "bytes 5-9/x"}) {
    INFO(bad);
    CHECK_FALSE(parse_content_range(bad));
  }
}

TEST_CASE("a Content-Range without a range is read whole or not at all") {
  CHECK(parse_unsatisfied_range("bytes */10") == 10U);
  CHECK(parse_unsatisfied_range(" Bytes  */0") == 0U);
  for (const char *bad : {"", "bytes", "bytes *", "bytes */", "bytes */*", "bytes 5-9/10", "bytes */-1",
                          "items */10", "bytes */x", "bytes */99999999999999999999"}) {
    INFO(bad);
    CHECK_FALSE(parse_unsatisfied_range(bad));
  }
}

TEST_CASE("a target is decoded once, and its traps are refused") {
  const auto target = parse_request_target("/a%20b/%252e?x=1&y=a%26b+c&empty=&bare");
  CHECK(target.path == "/a b/%2e");
  CHECK(target.query ==
        std::map<std::string, std::string>{{"x", "1"}, {"y", "a&b c"}, {"empty", ""}, {"bare", ""}});
  CHECK(parse_request_target("http://host:80/p?q=1").path == "/p");
  CHECK(parse_request_target("http://host").path == "/");
  for (const char *bad :
       {"", "*", "no-slash", "host:443", "/%", "/%4", "/%zz", "/%00", "/..", "/a/../b", "/a/.", "/%2e%2E/a",
        "/a/..%2fb", "/a?x=%0", "/a?x=%00", "/a?x=1&x=2", "/a?x=1&%78=2", "ftp://host/"}) {
    INFO(bad);
    CHECK(error_of([&] { parse_request_target(bad); }).code() == ErrorCode::invalid_argument);
  }
}

TEST_CASE("the most literal pattern wins, whatever the order of routes") {
  const auto named = [](const std::string &method, const std::string &pattern) {
    return route(method, pattern, [](auto &&...) {});
  };
  const Router router({named("GET", "/{rest...}"), named("GET", "/workers/{id}"),
                       named("POST", "/workers/{id}"), named("GET", "/workers/me"),
                       named("GET", "/workers/{id}/log/{line}"), named("DELETE", "/only")});
  const auto pattern = [&](const char *method, const char *path) {
    const auto match = router.find(method, path);
    return match.route ? match.route->pattern : "none, " + match.allowed;
  };
  CHECK(pattern("GET", "/workers/me") == "/workers/me");
  CHECK(pattern("GET", "/workers/7") == "/workers/{id}");
  CHECK(pattern("HEAD", "/workers/7") == "/workers/{id}");
  CHECK(pattern("POST", "/workers/me") == "/workers/{id}");
  CHECK(pattern("GET", "/workers/7/log/9") == "/workers/{id}/log/{line}");
  CHECK(pattern("GET", "/workers/") == "/{rest...}");
  CHECK(pattern("GET", "/a/b/c") == "/{rest...}");
  CHECK(pattern("POST", "/a/b/c") == "none, GET, HEAD");
  CHECK(pattern("PUT", "/") == "none, ");
  CHECK(router.find("GET", "/workers/7/log/9").parameters == std::vector<std::string>{"7", "9"});
  CHECK(router.find("GET", "/a/b/c").parameters == std::vector<std::string>{"a/b/c"});
  CHECK(error_of([&] {
          Router({named("GET", "/a"), named("GET", "/a")});
        }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { Router({named("GET", "/{rest...}/a")}); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { Router({named("GET", "a")}); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("conditions and ranges decide what is sent of an object") {
  const auto plan = [](const std::string &method, const Headers &headers, std::string etag = "v1") {
    HttpRequest request;
    request.method = method;
    request.headers = headers;
    HttpResponse response;
    response.source = std::make_shared<TextSource>("0123456789");
    response.etag = std::move(etag);
    return plan_answer(request, std::move(response));
  };
  const auto whole = plan("GET", {});
  CHECK(whole.response.status == 200);
  CHECK(whole.response.headers.at("etag") == "\"v1\"");
  CHECK(whole.length == 10);
  const auto part = plan("GET", {{"Range", "bytes=2-4"}});
  CHECK(part.response.status == 206);
  CHECK(part.response.headers.at("Content-Range") == "bytes 2-4/10");
  CHECK((part.first == 2 && part.length == 3));
  CHECK(plan("HEAD", {{"Range", "bytes=2-4"}}).response.status == 200);
  CHECK(plan("GET", {{"Range", "bytes=2-4"}, {"If-Range", "\"v1\""}}).response.status == 206);
  CHECK(plan("GET", {{"Range", "bytes=2-4"}, {"If-Range", "\"v0\""}}).response.status == 200);
  CHECK(plan("GET", {{"Range", "bytes=2-4"}, {"If-Range", "W/\"v1\""}}, "W/\"v1\"").response.status == 200);
  CHECK(
      plan("GET", {{"Range", "bytes=2-4"}, {"If-Range", "Sun, 06 Nov 1994 08:49:37 GMT"}}).response.status ==
      200);
  CHECK(plan("GET", {{"Range", "bytes=1-2,4-5"}}).response.status == 200);
  const auto outside = plan("GET", {{"Range", "bytes=10-"}});
  CHECK(outside.response.status == 416);
  CHECK(outside.response.headers.at("Content-Range") == "bytes */10");
  CHECK(plan("GET", {{"If-None-Match", "\"v1\""}}).response.status == 304);
  CHECK(plan("GET", {{"If-None-Match", "\"a,b\", W/\"v1\""}}).response.status == 304);
  CHECK(plan("GET", {{"If-None-Match", "*"}}).response.status == 304);
  CHECK(plan("GET", {{"If-None-Match", "\"v2\""}}).response.status == 200);
  CHECK(plan("GET", {{"If-Match", "\"v1\""}}).response.status == 200);
  CHECK(plan("GET", {{"If-Match", "\"v2\", \"v3\""}}).response.status == 412);
  CHECK(plan("GET", {{"If-Match", "W/\"v1\""}}).response.status == 412);
}

TEST_CASE("a problem document is JSON whatever the message holds") {
  const Error error(ErrorCode::invalid_argument, "a \"quoted\"\n\\ text \xff",
                    {{"a.b", "range", "0 \x01"}, {"", "type", "x"}});
  const auto response = problem_response(error);
  CHECK(response.status == 400);
  CHECK(response.headers.at("Content-Type") == "application/problem+json");
  CHECK(response.body ==
        "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"code\":\"invalid_argument\","
        "\"detail\":\"a \\\"quoted\\\" \\\\ text \xEF\xBF\xBD\",\"errors\":["
        "{\"field\":\"a.b\",\"code\":\"range\",\"message\":\"0 \\u0001\"},"
        "{\"field\":\"\",\"code\":\"type\",\"message\":\"x\"}]}");
  CHECK(problem_response(507, "io", "full").body.find("\"title\":\"Insufficient Storage\"") !=
        std::string::npos);
}

TEST_CASE("each error code has the status that its problem document has") {
  const std::vector<std::pair<ErrorCode, int>> expected = {
      {ErrorCode::invalid_argument, 400}, {ErrorCode::not_found, 404}, {ErrorCode::conflict, 409},
      {ErrorCode::unauthorized, 401},     {ErrorCode::forbidden, 403}, {ErrorCode::too_large, 413},
      {ErrorCode::timeout, 504},          {ErrorCode::cancelled, 503}, {ErrorCode::unavailable, 503},
      {ErrorCode::corrupt_data, 422},     {ErrorCode::io, 507},        {ErrorCode::unsupported, 422},
      {ErrorCode::protocol, 400},         {ErrorCode::internal, 500}};
  for (const auto &[code, status] : expected) CHECK(http_status_of(code) == status);
}

TEST_CASE("a handler's header value cannot begin another header") {
  ResponseHead head;
  head.headers["X-Name"] = "a\r\nSet-Cookie: b";
  head.headers["content-length"] = "7";
  const std::string text = serialize(head);
  CHECK(text.find("\r\nSet-Cookie") == std::string::npos);
  CHECK(text.find("content-length") == std::string::npos);
  CHECK(text.find("\r\nContent-Length: 0\r\n") != std::string::npos);
  CHECK(http_date(784111777) == "Sun, 06 Nov 1994 08:49:37 GMT");
  CHECK(http_date(1709164800) == "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST_CASE("a URL is shown without its secrets, and only http and https are taken") {
  CHECK(shown_url("https://user:word@host:1/a/b?X-Amz-Signature=abc#f") == "https://host:1/a/b");
  CHECK(shown_url("http://host?token=abc") == "http://host");
  check_url("http://[::1]:8080/a?b=c");
  check_url("HTTPS://host");
  for (const char *bad :
       {"", "host/path", "ftp://host/", "file:///etc/passwd", "http://", "http:///path",
        "http://user:word@host/", "http://host/a b", "http://host/\r\nX: y", "gopher://host"}) {
    INFO(bad);
    const Error error = error_of([&] { check_url(bad); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_FALSE(mentions(error, "word"));
  }
}
