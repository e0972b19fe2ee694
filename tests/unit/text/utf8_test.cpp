#include "text/utf8.hpp"

#include "support/catch.hpp"

using namespace parsyn::text;

TEST_CASE("UTF-8 is the shortest form of a character that exists") {
  for (const char *text :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "Zürich 数据 🙂"})
    CHECK(is_utf8(text));
  for (const char *text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF",
                           "\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x99", "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80", "\xFF", "good, then \xFE"})
    CHECK_FALSE(is_utf8(text));
}

TEST_CASE("control characters are those of ASCII and of Latin-1") {
  for (const char *text : {"a\tb", "\x1F", "\x7F", "\xC2\x80", "\xC2\x9F"})
    CHECK(has_control_characters(text));
  for (const char *text : {"", " ~", "\xC2\xA0", "\xC3\x80"}) CHECK_FALSE(has_control_characters(text));
}

TEST_CASE("text of others is made printable, and cut at a character's border") {
  CHECK(printable("a\nb\xC2\x85"
                  "c",
                  100) == "a b c");
  CHECK(printable("a\xFF\xE2\x82", 100) == "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(printable("", 3).empty());
  CHECK(printable("12345678", 8) == "12345678");
  CHECK(printable("123456789", 8) == "12345...");
  CHECK(shortened("12345ü789", 9) == "12345...");
  CHECK(shortened("1234ü7890", 9) == "1234ü...");
  CHECK(shortened("12345", 3) == "...");
}
