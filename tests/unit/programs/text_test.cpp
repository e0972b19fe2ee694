// What the programs read and write as text.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "common/listen_address.hpp"
#include "common/log_lines.hpp"
#include "common/plain_text.hpp"
#include "common/settings_file.hpp"
#include "common/token_file.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn::programs;
using parsyn::ErrorCode;
using parsyn::test::error_of;
using parsyn::test::mentions;
using parsyn::test::TemporaryFolder;

TEST_CASE("text from the coordinator cannot control a terminal") {
  CHECK(plain_text("a\x1b[31mb\r\n\tc\x7f") == "a[31mbc");
  CHECK(plain_text("a\xC2\x9B"
                   "31mb") == "a31mb");  // CSI in one character
  CHECK(plain_text("a\xE2\x80\xAE"
                   "b\xE2\x81\xA7"
                   "c") == "abc");  // turns the direction of writing
  CHECK(plain_text("gr\xC3\xBC\xC3\x9F\xE2\x82\xAC") == "gr\xC3\xBC\xC3\x9F\xE2\x82\xAC");
  CHECK(plain_text("a\xFF"
                   "b\xC3") ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD");
}

TEST_CASE("columns count characters, not bytes") {
  CHECK(character_count("gr\xC3\xBCn") == 4);
  CHECK(first_characters("gr\xC3\xBCn", 3) == "gr\xC3\xBC");
  CHECK(padded("gr\xC3\xBCn", 6) == "gr\xC3\xBCn  ");
  CHECK(padded("green", 3) == "gre");
}

TEST_CASE("an address to listen on has a host and a port") {
  CHECK(parse_listen_address("127.0.0.1:8080").host == "127.0.0.1");
  CHECK(parse_listen_address("127.0.0.1:8080").port == 8080);
  CHECK(parse_listen_address("[::1]:0").host == "::1");
  CHECK(parse_listen_address("localhost:65535").port == 65'535);
  for (const std::string wrong : {"", "127.0.0.1", ":8080", "::1", "::1:8080", "[::1]", "[::1]8080",
                                  "[::1:8080", "a:", "a:65536", "a:-1", "a:80x"}) {
    CAPTURE(wrong);
    CHECK(error_of([&] { parse_listen_address(wrong); }).code() == ErrorCode::invalid_argument);
  }
}

TEST_CASE("a line of a settings file that is none is named") {
  CHECK(parse_settings_file("").empty());
  const auto settings = parse_settings_file("# comment\r\n  listen =  [::1]:80  \nempty=\nq = \"\"");
  REQUIRE(settings.size() == 3);
  CHECK(settings[0].line == 2);
  CHECK(settings[0].name == "listen");
  CHECK(settings[0].value == "[::1]:80");
  CHECK(settings[1].value.empty());
  CHECK(settings[2].value.empty());
  CHECK(mentions(error_of([] { parse_settings_file("a = b\nno equals sign\n"); }), "line 2"));
  CHECK(mentions(error_of([] { parse_settings_file("= b\n"); }), "line 1"));
}

TEST_CASE("a token file is the owner's alone, and never overwritten") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "token";
  write_token_file(path, "secret");
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);

  std::vector<std::string> warnings;
  const auto warn = [&](const std::string &text) { warnings.push_back(text); };
  CHECK(read_token_file(path, warn) == "secret");
  CHECK(warnings.empty());
  const auto error = error_of([&] { write_token_file(path, "other"); });
  CHECK(error.code() == ErrorCode::conflict);
  CHECK(read_token_file(path, warn) == "secret");

  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK(read_token_file(path, warn) == "secret");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("secret") == std::string::npos);

  CHECK(error_of([&] { read_token_file(folder.file("empty", " \n"), warn); }).code() ==
        ErrorCode::invalid_argument);
  CHECK(error_of([&] { read_token_file(folder.file("two", "a b\n"), warn); }).code() ==
        ErrorCode::invalid_argument);
  CHECK(error_of([&] { read_token_file(folder.path() / "none", warn); }).code() == ErrorCode::not_found);
}

TEST_CASE("a log line has time, level and text, in words or as JSON") {
  const parsyn::LogRecord record{parsyn::LogLevel::warning, "a.b", "it \"broke\"\x1b", {{"job", "1"}}};
  CHECK(log_line(record, LogFormat::text, 1'767'225'600'007) ==
        "2026-01-01T00:00:00.007Z warning it \"broke\" job=1");
  CHECK(
      log_line(record, LogFormat::json, 1'767'225'600'007) ==
      R"({"time":"2026-01-01T00:00:00.007Z","level":"warning","id":"a.b","text":"it \"broke\"\u001b","job":"1"})");
}

TEST_CASE("a field of a log line ends where it ends") {
  const parsyn::LogRecord record{parsyn::LogLevel::info,
                                 "a.b",
                                 "x",
                                 {{"place", "/a b\x1b"}, {"empty", ""}, {"odd", "\"=\""}, {"id", "7"}}};
  CHECK(log_line(record, LogFormat::text, 0) ==
        R"(1970-01-01T00:00:00.000Z info    x place="/a b" empty="" odd="\"=\"" id=7)");
}

TEST_CASE("a coordinator listens on a numeric address, or on localhost") {
  CHECK(parse_listen_address("localhost:0").host == "127.0.0.1");
  CHECK(parse_listen_address("127.0.0.1:8080").port == 8080);
  CHECK(parse_listen_address("[::1]:8080").host == "::1");
  for (const char *wrong : {"localhost", "1:80", "127.1:80", "example.org:80", ":80", "[::1]", "::1:80",
                            "1.2.3:x", "127.0.0.1:65536"}) {
    CAPTURE(wrong);
    CHECK(error_of([&] { parse_listen_address(wrong); }).code() == ErrorCode::invalid_argument);
  }
}
