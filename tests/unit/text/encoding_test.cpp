#include "text/encoding.hpp"

#include <array>

#include "support/catch.hpp"

using namespace parsyn::text;

TEST_CASE("bytes are two lower-case hexadecimal digits each") {
  const std::array<std::byte, 3> bytes{std::byte{0}, std::byte{0x9A}, std::byte{0xFF}};
  CHECK(hex(bytes) == "009aff");
  CHECK(hex({}).empty());
}

TEST_CASE("percent-encoding keeps what RFC 3986 does not reserve, and comes back") {
  CHECK(percent_encode("aZ09-._~") == "aZ09-._~");
  CHECK(percent_encode("a b+c%/=ü") == "a%20b%2Bc%25%2F%3D%C3%BC");
  CHECK(percent_encode("a/b c", "/") == "a/b%20c");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(percent_decode(percent_encode(all)) == all);
  CHECK(percent_decode("a+b") == "a+b");
  for (const char *broken : {"%", "%2", "a%", "%zz", "%2g", "%%20"}) CHECK_FALSE(percent_decode(broken));
}

TEST_CASE("a number is decimal digits that fit, and nothing else") {
  CHECK(parse_u64("0") == 0);
  CHECK(parse_u64("007") == 7);
  CHECK(parse_u64("18446744073709551615") == UINT64_MAX);
  for (const char *text : {"", " 1", "1 ", "+1", "-1", "0x1", "1.0", "18446744073709551616"})
    CHECK_FALSE(parse_u64(text));
}
