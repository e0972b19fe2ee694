#include "parsyn/dataset.hpp"
#include "support/catch.hpp"
#include "unit/data/files.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

void says(const std::string &bytes, const std::string &line, const std::string &text) {
  const Error error = refusal("a.jsonl", bytes);
  INFO(error.message());
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, line + ":"));
  CHECK(mentions(error, text));
}

}  // namespace

TEST_CASE("JSON Lines arrays of any rank become F32 inputs") {
  const Examples examples = read_bytes("a.jsonl", R"({"x": [[1, 2], [3, 4.5], [5, -6e1]], "y": 1}
{"y": 0, "x": [[7, 8], [9, 10], [11, 12]]}
)");
  CHECK(examples.x.shape == Shape{2, 3, 2});
  CHECK(f32_elements(examples.x) == Floats{1, 2, 3, 4.5, 5, -60, 7, 8, 9, 10, 11, 12});
  CHECK(examples.y.shape == Shape{2});
  CHECK(i64_elements(examples.y) == Labels{1, 0});
}

TEST_CASE("y is a class label, a number or an array") {
  const Examples numbers = read_bytes("a.jsonl", "{\"x\":[1],\"y\":1}\n{\"x\":[2],\"y\":3.0}\n");
  CHECK(numbers.y.dtype == Dtype::f32);
  CHECK(f32_elements(numbers.y) == Floats{1, 3});
  const Examples arrays = read_bytes("a.jsonl", "{\"x\":[1],\"y\":[1,2]}\n{\"x\":[2],\"y\":[3,4.5]}\n");
  CHECK(arrays.y.shape == Shape{2, 2});
  CHECK(f32_elements(arrays.y) == Floats{1, 2, 3, 4.5});
  CHECK(i64_elements(read_bytes("a.jsonl", "{\"x\":[1],\"y\":-9223372036854775808}").y) == Labels{INT64_MIN});
}

TEST_CASE("blank lines, CRLF and a missing last line end are fine at the end; gzip is undone") {
  CHECK(read_bytes("a.jsonl", "{\"x\":[1],\"y\":1}\r\n{\"x\":[2],\"y\":1}\n\n \n").count() == 2);
  CHECK(read_bytes("a.jsonl", "{\"x\":[1],\"y\":1}").count() == 1);
  CHECK(read_bytes("a.ndjson.gz", gzipped("{\"x\":[1],\"y\":1}\n")).count() == 1);
}

TEST_CASE("a malformed JSON Lines file is refused with the line and what is wrong") {
  const std::string good = "{\"x\":[1,2],\"y\":1}\n";
  says("", "line 1", "no examples");
  says("\n" + good, "line 1", "blank");
  says(good + "{\"x\":[1,2],\"y\":", "line 2", "not JSON");
  says(good + "{\"x\":[1,2]; \"y\":1}", "line 2", "column 11");
  CHECK(refusal("a.jsonl", "{").message().find("exception") == std::string::npos);
  says(good + good + "{\"x\":[1,2],\"y\":1} {}", "line 3", "not JSON");
  says("[1,2]\n", "line 1", "not an object");
  says("7\n", "line 1", "not an object");
  says(good + "{\"x\":[1,2]}\n", "line 2", "\"y\" is missing");
  says("{\"y\":1}\n", "line 1", "\"x\" is missing");
  says("{\"x\":[1],\"x\":[1],\"y\":1}\n", "line 1", "\"x\" is there twice");
  says("{\"x\":[1],\"y\":1,\"y\":2}\n", "line 1", "\"y\" is there twice");
  says("{\"x\":[1],\"label\":1}\n", "line 1", "\"label\" is unknown");
  says("{\"x\":1,\"y\":1}\n", "line 1", "must be an array");
  says("{\"x\":[],\"y\":1}\n", "line 1", "empty array");
  says("{\"x\":[[1],[]],\"y\":1}\n", "line 1", "empty array");
  says("{\"x\":[[1,2],[3]],\"y\":1}\n", "line 1", "1 entries where others have 2");
  says(good + "{\"x\":[1,2,3],\"y\":1}\n", "line 2", "3 entries where others have 2");
  says("{\"x\":[1,[2]],\"y\":1}\n", "line 1", "nested deeper");
  says("{\"x\":[[1],2],\"y\":1}\n", "line 1", "beside an array");
  says(good + "{\"x\":[[1,2]],\"y\":1}\n", "line 2", "nested deeper");
  says("{\"x\":[1,\"2\"],\"y\":1}\n", "line 1", "a string");
  says("{\"x\":[null],\"y\":1}\n", "line 1", "null");
  says("{\"x\":[true],\"y\":1}\n", "line 1", "a boolean");
  says("{\"x\":[{}],\"y\":1}\n", "line 1", "an object");
  says("{\"x\":[1],\"y\":\"cat\"}\n", "line 1", "number the classes 0, 1, 2");
  says("{\"x\":[1],\"y\":1}\n{\"x\":[1],\"y\":[1]}\n", "line 2", "y is a number in some lines");
  says("{\"x\":[1],\"y\":[1]}\n{\"x\":[1],\"y\":1}\n", "line 2", "y is a number in some lines");
  says("{\"x\":[1e39],\"y\":1}\n", "line 1", "does not fit 32-bit floats");
  says("{\"x\":[1e400],\"y\":1}\n", "line 1", "number overflow");
  says("{\"x\":[NaN],\"y\":1}\n", "line 1", "not JSON");
  says("{\"x\":[1],\"y\":18446744073709551615}\n", "line 1", "does not fit 64 bits");
  says("{\"x\":[1],\"\xFF\":1}\n", "line 1", "not JSON");
}

TEST_CASE("a byte order mark may stand at the start of a JSON Lines file only") {
  const std::string good = "{\"x\":[2],\"y\":1}\n";
  CHECK(read_bytes("a.jsonl", "\xEF\xBB\xBF" + good + good).count() == 2);
  says(good + "\xEF\xBB\xBF" + good, "line 2", "byte order mark");
}

TEST_CASE("nesting is bounded") {
  const std::string deep = std::string(15, '[') + "1" + std::string(15, ']');
  CHECK(read_bytes("a.jsonl", "{\"x\":" + deep + ",\"y\":1}").x.shape == Shape(16, 1));
  says("{\"x\":[" + deep + "],\"y\":1}", "line 1", "nested deeper than 15");
  says("{\"x\":" + std::string(100'000, '['), "line 1", "nested deeper");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"x\":";
  says(objects, "line 1", "an object");
}

TEST_CASE("a NUL byte does not hide what lies behind it") {
  using namespace std::string_literals;
  says("{\"x\":[1],\"y\":1}\n{\"x\":[2],\"y\":1}\0{\"x\":[3],\"y\":5}\n"s, "line 2", "NUL");
}
