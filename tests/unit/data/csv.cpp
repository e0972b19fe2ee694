#include <clocale>

#include "parsyn/dataset.hpp"
#include "support/catch.hpp"
#include "unit/data/files.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

void says(const Error &error, const std::string &line, const std::string &text) {
  INFO(error.message());
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, line));
  CHECK(mentions(error, text));
}

}  // namespace

TEST_CASE("CSV features become F32 and whole labels class labels") {
  const Examples examples = read_bytes("a.csv", "a,b,label\n1,2.5,0\n-3e2,+4,2\n");
  CHECK(examples.x.shape == Shape{2, 2});
  CHECK(f32_elements(examples.x) == Floats{1, 2.5, -300, 4});
  CHECK(examples.y.shape == Shape{2});
  CHECK(i64_elements(examples.y) == Labels{0, 2});
}

TEST_CASE("the label column is the one that is named, else \"label\", else the last") {
  const std::string bytes = "label,a,b\n1,2,3\n";
  CHECK(i64_elements(read_bytes("a.csv", bytes).y) == Labels{1});
  CHECK(i64_elements(read_bytes("a.csv", bytes, "a").y) == Labels{2});
  CHECK(f32_elements(read_bytes("a.csv", bytes, "a").x) == Floats{1, 3});
  CHECK(i64_elements(read_bytes("a.csv", "x,a,b\n1,2,3\n").y) == Labels{3});
  const Error absent = refusal("a.csv", bytes, "clas");
  CHECK(absent.code() == ErrorCode::invalid_argument);
  CHECK(mentions(absent, "\"clas\""));
  CHECK(mentions(absent, "\"label\", \"a\", \"b\""));
  says(refusal("a.csv", "a,label,label\n1,2,3\n"), "line 1", "ambiguous");
}

TEST_CASE("one label that is not a whole number makes all of them F32 targets") {
  const Examples examples = read_bytes("a.csv", "a,label\n1,3\n1,0.5\n1,-2\n");
  CHECK(examples.y.dtype == Dtype::f32);
  CHECK(f32_elements(examples.y) == Floats{3, 0.5, -2});
}

TEST_CASE("negative class labels are kept, and the shape reports them") {
  CHECK(shape_of(read_bytes("a.csv", "a,label\n1,-1\n1,1\n")).label_min == -1);
}

TEST_CASE("quotes, CRLF, a byte order mark and a missing last line end are read as RFC 4180 has them") {
  const Examples examples = read_bytes(
      "a.csv", "\xEF\xBB\xBF\"a, with \"\"quotes\"\"\nand two lines\",label\r\n\"1\",\"2\"\r\n 3 ,\t4");
  CHECK(f32_elements(examples.x) == Floats{1, 3});
  CHECK(i64_elements(examples.y) == Labels{2, 4});
  CHECK(i64_elements(read_bytes("a.csv", "\"the, \"\"label\"\"\",b\n7,8\n", "the, \"label\"").y) ==
        Labels{7});
}

TEST_CASE("a gzipped CSV file is read") {
  CHECK(f32_elements(read_bytes("a.csv.gz", gzipped("a,label\n1,2\n")).x) == Floats{1});
}

TEST_CASE("blank lines are allowed at the end only") {
  CHECK(read_bytes("a.csv", "a,label\n1,2\n\n\r\n").count() == 1);
  says(refusal("a.csv", "a,label\n1,2\n\n3,4\n"), "line 3", "blank");
}

TEST_CASE("a malformed CSV file is refused with the line and what to do") {
  says(refusal("a.csv", ""), "line 1", "empty");
  says(refusal("a.csv", "a,label\n"), "line 2", "no examples");
  says(refusal("a.csv", "label\n1\n"), "line 1", "one column");
  says(refusal("a.csv", "1,2\n3,4\n"), "line 1", "add a header line");
  says(refusal("a.csv", "a,b,label\n1,2,3\n1,2\n"), "line 3", "2 fields, where the header has 3");
  says(refusal("a.csv", "a,b,label\n1,2,3,4\n"), "line 2", "4 fields");
  says(refusal("a.csv", "a,label\n1,0\nx1,0\n"), "line 3", "column \"a\": \"x1\" is not a number");
  says(refusal("a.csv", "a,label\n,0\n"), "line 2", "is missing");
  says(refusal("a.csv", "a,label\n1,cat\n"), "line 2", "label \"cat\"");
  says(refusal("a.csv", "a,label\n1,cat\n"), "line 2", "number the classes 0, 1, 2");
  says(refusal("a.csv", "a,label\n1,\n"), "line 2", "is missing");
  says(refusal("a.csv", "a,label\nnan,1\n"), "line 2", "is not finite");
  says(refusal("a.csv", "a,label\n-inf,1\n"), "line 2", "is not finite");
  says(refusal("a.csv", "a,label\n1,nan\n"), "line 2", "is not finite");
  says(refusal("a.csv", "a,label\n1e39,1\n"), "line 2", "does not fit");
  says(refusal("a.csv", "a,label\n1,99999999999999999999\n"), "line 2", "does not fit");
  says(refusal("a.csv", "a,label\n1.5.2,1\n"), "line 2", "is not a number");
  says(refusal("a.csv", "a,label\n0x10,1\n"), "line 2", "is not a number");
  says(refusal("a.csv", "a,label\n\"1,5\",1\n"), "line 2", "is not a number");
  says(refusal("a.csv", "a,label\n\"1\n,2\n3,4\n"), "line 2", "never closed");
  says(refusal("a.csv", "a,label\n\"1\"2,3\n"), "line 2", "closing quote");
  says(refusal("a.csv", "a,label\n1\"2,3\n"), "line 2", "quote stands inside");
  says(refusal("a.csv", "a,label\r1,2\r"), "line 1", "carriage return");
  says(refusal("a.csv", "\"a\nb\",label\n1,2\nx,2\n"), "line 4", "is not a number");
}

TEST_CASE("a small number that F32 rounds to zero is zero") {
  CHECK(f32_elements(read_bytes("a.csv", "a,label\n1e-60,1\n").x) == Floats{0});
}

TEST_CASE("numbers are read alike in every locale") {
  // Where the locale is installed, its decimal comma must change nothing; else this is the C locale once
  // more.
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  const Examples csv = read_bytes("a.csv", "a,label\n2.5,0.25\n");
  const Examples jsonl = read_bytes("a.jsonl", "{\"x\": [2.5], \"y\": 0.25}\n");
  std::setlocale(LC_ALL, before.c_str());
  CHECK(f32_elements(csv.x) == Floats{2.5});
  CHECK(f32_elements(jsonl.x) == Floats{2.5});
  CHECK(f32_elements(jsonl.y) == Floats{0.25});
}
