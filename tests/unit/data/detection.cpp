#include <sys/stat.h>

#include <cmath>

#include "parsyn/dataset.hpp"
#include "parsyn/safetensors.hpp"
#include "support/catch.hpp"
#include "unit/data/files.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

std::string safetensors(const StateDict &state) {
  MemorySink sink;
  write_safetensors(state, sink);
  return {reinterpret_cast<const char *>(sink.bytes().data()), sink.bytes().size()};
}

Tensor integers(Dtype dtype, std::size_t width, std::vector<std::uint64_t> shape, const Labels &values) {
  Tensor tensor{dtype, std::move(shape), {}};
  for (const std::int64_t value : values) {
    for (std::size_t i = 0; i < width; ++i) {
      tensor.data.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  return tensor;
}

const Tensor kInputs = make_f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6});

}  // namespace

TEST_CASE("a safetensors file with x and y is a dataset") {
  const std::string bytes = safetensors({{"x", kInputs}, {"y", integers(Dtype::i64, 8, {2}, {3, -4})}});
  for (const char *name : {"a.safetensors", "without-ending"}) {
    const Examples examples = read_bytes(name, bytes);
    CHECK(examples.x == kInputs);
    CHECK(i64_elements(examples.y) == Labels{3, -4});
  }
}

TEST_CASE("integer labels of another width become I64") {
  const auto labels = [](const Tensor &y) {
    return i64_elements(read_bytes("a.safetensors", safetensors({{"x", kInputs}, {"y", y}})).y);
  };
  CHECK(labels(integers(Dtype::u8, 1, {2}, {255, 0})) == Labels{255, 0});
  CHECK(labels(integers(Dtype::i16, 2, {2}, {-2, 300})) == Labels{-2, 300});
  CHECK(labels(integers(Dtype::i32, 4, {2}, {INT32_MIN, 5})) == Labels{INT32_MIN, 5});
  CHECK(labels(integers(Dtype::u64, 8, {2}, {1, INT64_MAX})) == Labels{1, INT64_MAX});
}

TEST_CASE("a safetensors file that is no dataset is refused with its name and what is wrong") {
  const auto says = [](const StateDict &state, const char *text) {
    const Error error = refusal("a.safetensors", safetensors(state));
    INFO(error.message());
    CHECK(error.code() == ErrorCode::corrupt_data);
    CHECK(mentions(error, "a.safetensors"));
    CHECK(mentions(error, text));
  };
  const Tensor labels = integers(Dtype::i64, 8, {2}, {0, 1});
  says({{"x", kInputs}}, "\"y\"");
  says({{"x", kInputs}, {"y", labels}, {"weight", labels}}, "\"weight\"");
  says({{"x", kInputs}, {"y", integers(Dtype::i64, 8, {3}, {0, 1, 2})}}, "2 examples, but y holds 3");
  says({{"x", kInputs}, {"y", integers(Dtype::i64, 8, {2, 1}, {0, 1})}}, "store class labels as integers");
  says({{"x", kInputs}, {"y", integers(Dtype::f16, 2, {2}, {0, 1})}}, "targets as F32");
  says({{"x", kInputs}, {"y", integers(Dtype::u64, 8, {2}, {0, -1})}}, "does not fit 64 bits");
  says({{"x", integers(Dtype::bf16, 2, {2, 2}, {0, 0, 0, 0x7F80})}, {"y", labels}}, "element 1 of example 1");
  says({{"x", kInputs}, {"y", make_f32_tensor({2}, {0, NAN})}}, "y: element 0 of example 1");
  says({{"x", make_f32_tensor({0, 3}, {})}, {"y", integers(Dtype::i64, 8, {0}, {})}}, "no examples");
  CHECK(mentions(refusal("a.safetensors", "short"), "a.safetensors"));
}

TEST_CASE("examples without elements are refused, however many a safetensors file claims") {
  const auto says = [](const StateDict &state, ErrorCode code, const char *text) {
    const Error error = refusal("a.safetensors", safetensors(state));
    INFO(error.message());
    CHECK(error.code() == code);
    CHECK(mentions(error, text));
  };
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const auto empty = [](std::uint64_t count) { return make_f32_tensor({count, 0}, {}); };
  says({{"x", empty(2)}, {"y", empty(2)}}, ErrorCode::corrupt_data, "x of shape [2, 0]");
  says({{"x", kInputs}, {"y", empty(2)}}, ErrorCode::corrupt_data, "y of shape [2, 0]");
  says({{"x", empty(huge)}, {"y", empty(huge)}}, ErrorCode::too_large, "8589934592 examples");
  says({{"x", kInputs}, {"y", empty(huge)}}, ErrorCode::too_large, "y of shape");
  CHECK(error_of([&] { shape_of({empty(huge), empty(huge)}); }).code() == ErrorCode::too_large);
}

TEST_CASE("a byte of a BOOL tensor is 0 or 1") {
  const Tensor good = integers(Dtype::boolean, 1, {2}, {1, 0});
  CHECK(i64_elements(read_bytes("a.safetensors", safetensors({{"x", kInputs}, {"y", good}})).y) ==
        Labels{1, 0});
  const Error label = refusal("a.safetensors",
                              safetensors({{"x", kInputs}, {"y", integers(Dtype::boolean, 1, {2}, {1, 7})}}));
  CHECK(label.code() == ErrorCode::corrupt_data);
  CHECK(mentions(label, "y: element 0 of example 1 is 7"));
  const Tensor inputs = integers(Dtype::boolean, 1, {2, 2}, {1, 0, 0, 2});
  CHECK(mentions(refusal("a.safetensors", safetensors({{"x", inputs}, {"y", good}})),
                 "x: element 1 of example 1 is 2"));
}

TEST_CASE("a file without a telling name is known by its first bytes") {
  CHECK(read_bytes("data", "{\"x\":[1],\"y\":1}\n").count() == 1);
  CHECK(read_bytes("data", gzipped("{\"x\":[1],\"y\":1}\n")).count() == 1);
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.path = folder.file("images", std::string("\0\0\x08\2\0\0\0\1\0\0\0\1", 12) + "a");
  options.labels_path = folder.file("labels", std::string("\0\0\x08\1\0\0\0\1", 8) + "\5");
  CHECK(i64_elements(read_examples(options).y) == Labels{5});
}

TEST_CASE("an unknown format is refused with those that are known") {
  for (const char *bytes : {"", "hello", "PK\3\4"}) {
    const Error error = refusal("data.bin", bytes);
    CHECK(error.code() == ErrorCode::invalid_argument);
    for (const char *known : {"IDX", "CSV", "JSON Lines", "safetensors"}) CHECK(mentions(error, known));
  }
}

TEST_CASE("a format that is asked for is not guessed") {
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.path = folder.file("table.data", "a,label\n1,2\n");
  options.format = DatasetFormat::csv;
  CHECK(read_examples(options).count() == 1);
  options.format = DatasetFormat::jsonl;
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::corrupt_data);
}

TEST_CASE("options of another format, and files that are not there, are refused") {
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.path = folder.file("a.csv", "a,label\n1,2\n");
  options.labels_path = "labels";
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::invalid_argument);
  CHECK(refusal("a.jsonl", "{\"x\":[1],\"y\":1}\n", "label").code() == ErrorCode::invalid_argument);
  CHECK(mentions(refusal("a.safetensors.gz", gzipped("x")), "gunzip"));
  options.labels_path.clear();
  for (const char *name :
       {"absent.csv", "absent.jsonl", "absent.safetensors", "absent-images-idx3-ubyte", "absent"}) {
    options.path = folder.path() / name;
    CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::not_found);
  }
  options.path = folder.path();
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a named pipe that nobody writes to is refused at once") {
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.path = folder.path() / "pipe.csv";
  REQUIRE(::mkfifo(options.path.c_str(), 0600) == 0);
  for (const DatasetFormat format : {DatasetFormat::detect, DatasetFormat::csv, DatasetFormat::jsonl,
                                     DatasetFormat::idx, DatasetFormat::safetensors}) {
    options.format = format;
    options.labels_path = format == DatasetFormat::idx ? options.path : std::filesystem::path();
    CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::invalid_argument);
  }
}
