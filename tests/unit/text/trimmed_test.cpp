#include "text/trimmed.hpp"

#include "support/catch.hpp"

using parsyn::text::trimmed;

TEST_CASE("white space goes from the ends of a text, and stays within it") {
  CHECK(trimmed(" \t a \t b \t ") == "a \t b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed("").empty());
  CHECK(trimmed(" \t ").empty());
}

TEST_CASE("only what is named is white space: a carriage return is none in a header") {
  CHECK(trimmed("chunked\r") == "chunked\r");
  CHECK(trimmed(" value\r\n", " \t\r\n") == "value");
  CHECK(trimmed("\xa0 a") == "\xa0 a");
}
