#include "wire/problem.hpp"

#include "support/catch.hpp"

using namespace parsyn;
using wire::error_from_problem;

TEST_CASE("a problem document becomes the error that it tells of") {
  const Error error = error_from_problem(409, R"({"type":"about:blank","title":"Conflict","status":409,
      "code":"conflict","detail":"the lease is superseded","errors":[{"field":"lease","code":"lease_superseded",
      "message":"a newer session has it"}],"trace":[1,2]})");
  CHECK(error.code() == ErrorCode::conflict);
  CHECK(error.message() == "the lease is superseded");
  REQUIRE(error.faults().size() == 1);
  CHECK(error.faults()[0] == Fault{"lease", "lease_superseded", "a newer session has it"});
}

TEST_CASE("the code of a problem document decides, not its status") {
  for (std::int32_t number = 1; number <= 14; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    CHECK(error_from_problem(400, R"({"code":")" + std::string(error_code_name(code)) + "\"}").code() ==
          code);
  }
  CHECK(error_from_problem(404, R"({"code":"ok"})").code() == ErrorCode::not_found);
  CHECK(error_from_problem(404, R"({"code":"of_a_later_time","title":"Gone"})").code() ==
        ErrorCode::not_found);
  CHECK(error_from_problem(404, R"({"code":7,"title":"Gone"})").message() == "Gone");
}

TEST_CASE("a body that is no problem document gives a code by the status, and a message that tells it") {
  const auto code = [](int status) { return error_from_problem(status, "<html>").code(); };
  CHECK(code(400) == ErrorCode::invalid_argument);
  CHECK(code(401) == ErrorCode::unauthorized);
  CHECK(code(403) == ErrorCode::forbidden);
  CHECK(code(404) == ErrorCode::not_found);
  CHECK(code(409) == ErrorCode::conflict);
  CHECK(code(413) == ErrorCode::too_large);
  for (const int status : {429, 500, 502, 503, 504}) CHECK(code(status) == ErrorCode::unavailable);
  CHECK(code(418) == ErrorCode::protocol);
  for (const char *body : {"", "<html>", "[]", "{}", "null", "{\"code\":\"conflict\",\"code\":1"}) {
    CHECK(error_from_problem(503, body).message().find("503") != std::string::npos);
  }
}

TEST_CASE("what a server says is made printable and bounded") {
  const Error error = error_from_problem(
      400, R"({"detail":"a\u001b[2Jb)" + std::string(10'000, 'x') + R"(","errors":[1,{"field":3}]})");
  CHECK(error.message().substr(0, 6) == "a [2Jb");
  CHECK(error.message().size() <= 2'000);
  REQUIRE(error.faults().size() == 1);
  CHECK(error.faults()[0].field.empty());
}
