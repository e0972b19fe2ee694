#include "parsyn/safetensors.hpp"

#include <random>

#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

std::string text_of(const std::vector<std::byte> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

SafetensorsHeader header_of(const std::vector<std::byte> &file, const SafetensorsLimits &limits = {}) {
  return read_safetensors_header(MemorySource(file), limits);
}

/// "code: message" of the refusal of a file with this JSON; "" when it is read.
std::string refusal_of(std::string_view json, std::size_t data_bytes, const SafetensorsLimits &limits = {}) {
  const auto error = thrown_by([&] { header_of(raw_file(json, data_bytes), limits); });
  return error ? std::string(error_code_name(error->code())) + ": " + error->message() : "";
}

/// Refused as corrupt, with these words in the sentence.
void check_corrupt(std::string_view json, std::size_t data_bytes,
                   std::initializer_list<std::string_view> words) {
  const std::string reason = refusal_of(json, data_bytes);
  CAPTURE(json.substr(0, 200), reason);
  CHECK(reason.substr(0, 14) == "corrupt_data: ");
  for (const std::string_view word : words) CHECK(contains(reason, word));
}

std::string tensor_json(std::string_view name, std::string_view body) {
  return "{\"" + std::string(name) + "\":{" + std::string(body) + "}}";
}

}  // namespace

TEST_CASE("The writer's bytes are exactly these") {
  const StateDict state{{"b", f32({2}, {1.0f, -2.0f})},
                        {"a", tensor_of<std::uint8_t>(Dtype::u8, {3}, {1, 2, 3})},
                        {"c", tensor_of<std::int64_t>(Dtype::i64, {}, {-1})}};
  const std::string json =
      R"({"__metadata__":{"round":"7"},"c":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"a":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  const std::size_t padded = (json.size() + 7) / 8 * 8;
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded);
  expected += json + std::string(padded - json.size(), ' ');
  expected += std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\x00\x80\x3F\x00\x00\x00\xC0\x01\x02\x03", 19);
  REQUIRE(padded == 192);
  CHECK(text_of(file_of(state, {{"round", "7"}})) == expected);
}

TEST_CASE("The layout orders by descending element size, then by name, and pads the header to 8 bytes") {
  const SafetensorsLayout layout = layout_safetensors({{"z", Dtype::f64, {1}},
                                                       {"y", Dtype::u8, {5}},
                                                       {"x", Dtype::bf16, {2}},
                                                       {"w", Dtype::f64, {2}},
                                                       {"v", Dtype::f4, {2}}});
  std::string order;
  for (const SafetensorsEntry &entry : layout.tensors) order += entry.spec.name;
  CHECK(order == "wzxyv");
  CHECK(layout.head.size() % 8 == 0);
  CHECK(layout.tensors.front().begin == layout.head.size());
  CHECK(layout.file_bytes == layout.head.size() + 16 + 8 + 4 + 5 + 1);
}

TEST_CASE("Any state dict that is written is read back unchanged") {
  std::mt19937_64 random(5);
  for (int repeat = 0; repeat < 50; ++repeat) {
    StateDict state;
    const std::size_t count = random() % 8;
    for (std::size_t index = 0; index < count; ++index) {
      Tensor tensor;
      tensor.dtype = static_cast<Dtype>(random() % 22);
      for (std::size_t rank = random() % 4; rank > 0; --rank) tensor.shape.push_back(random() % 5);
      tensor.shape.push_back(4);  // Sub-byte elements fill their bytes.
      tensor.data.resize(TensorSpec{"", tensor.dtype, tensor.shape}.byte_size());
      for (std::byte &byte : tensor.data) byte = static_cast<std::byte>(random() & 0xFF);
      state["tensor." + std::to_string(index) + "/\"\\\n\xC3\xA9"] = tensor;
    }
    const std::map<std::string, std::string> metadata{{"k\"", "v\n"}, {"", ""}};
    const std::vector<std::byte> file = file_of(state, metadata);
    CHECK(read_safetensors(MemorySource(file)) == state);
    const SafetensorsHeader header = header_of(file);
    CHECK(header.metadata == metadata);
    CHECK(header.file_bytes == file.size());
    CHECK(header.specs() == specs_of(state));
  }
}

TEST_CASE("Tensors are found by name, in a header in name order") {
  const std::vector<std::byte> file =
      file_of({{"a", f32({2}, {1, 2})}, {"b", tensor_of<double>(Dtype::f64, {1}, {3})}});
  const SafetensorsHeader header = header_of(file);
  REQUIRE(header.find("a") != nullptr);
  CHECK(header.find("a")->bytes == 8);
  CHECK(header.find("a")->begin == file.size() - 8);
  CHECK(header.find("b")->begin == file.size() - 16);
  CHECK(header.find("c") == nullptr);
  CHECK(header.find("") == nullptr);
}

TEST_CASE("Files of other writers are read: unaligned data, any key order, white space") {
  const std::vector<std::byte> file =
      raw_file("{ \"w\" : {\"data_offsets\":[0, 4],\n\"shape\":[ 1 ],\t\"dtype\":\"F32\"} }  ", 4);
  const StateDict state = read_safetensors(MemorySource(file));
  CHECK(f32_elements(state.at("w")) == std::vector<float>{0});
}

TEST_CASE("Keys that are there twice, or unknown, or missing, are named") {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  check_corrupt("{\"w\":" + entry + ",\"w\":" + entry + "}", 1, {"\"w\"", "twice"});
  check_corrupt("{\"w\":" + entry + R"(,"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
                {"\"w\"", "twice"});
  check_corrupt(R"({"__metadata__":{},"__metadata__":{}})", 0, {"__metadata__", "twice"});
  check_corrupt(R"({"__metadata__":{"a":"1","a":"1"}})", 0, {"\"a\"", "twice"});
  const std::string whole = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  for (const std::string_view field : {R"("dtype":"U8")", R"("shape":[1])", R"("data_offsets":[0,1])"}) {
    check_corrupt(tensor_json("w", whole + "," + std::string(field)), 1, {"\"w\"", "twice"});
  }
  check_corrupt(tensor_json("w", whole + R"(,"stride":[1])"), 1, {"\"w\"", "unknown key \"stride\""});
  check_corrupt(tensor_json("w", R"("shape":[1],"data_offsets":[0,1])"), 1, {"\"w\"", "no dtype"});
  check_corrupt(tensor_json("w", R"("dtype":"U8","data_offsets":[0,1])"), 1, {"\"w\"", "no shape"});
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":[1])"), 1, {"\"w\"", "no data_offsets"});
}

TEST_CASE("Dimensions and offsets are integers of 64 bits from 0") {
  for (const std::string_view number :
       {"1.0", "1e0", "-1", "-0", "18446744073709551616", "1e400", "\"1\"", "true", "null", "[1]", "{}"}) {
    CAPTURE(number);
    check_corrupt(
        tensor_json("w", R"("dtype":"U8","shape":[)" + std::string(number) + R"(],"data_offsets":[0,1])"), 1,
        {"header"});
    check_corrupt(
        tensor_json("w", R"("dtype":"U8","shape":[1],"data_offsets":[0,)" + std::string(number) + "]"), 1,
        {"header"});
  }
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":[-3],"data_offsets":[0,1])"), 1,
                {"\"w\"", "-3", "shape"});
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])"), 1,
                {"\"w\"", "more than two"});
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1,
                {"\"w\"", "1 data_offsets"});
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":[18446744073709551615,2],"data_offsets":[0,1])"), 1,
                {"\"w\"", "64 bits"});
}

TEST_CASE("Values of another type, and nesting where none belongs, are errors") {
  check_corrupt(R"({"w":[]})", 0, {"\"w\"", "an array"});
  check_corrupt(R"({"w":1})", 0, {"\"w\"", "the number 1"});
  check_corrupt(R"({"w":null})", 0, {"\"w\"", "null"});
  check_corrupt(tensor_json("w", R"("dtype":{},"shape":[1],"data_offsets":[0,1])"), 1, {"\"w\"", "dtype"});
  check_corrupt(tensor_json("w", R"("dtype":5,"shape":[1],"data_offsets":[0,1])"), 1, {"\"w\"", "dtype"});
  check_corrupt(tensor_json("w", R"("dtype":"XX","shape":[1],"data_offsets":[0,1])"), 1, {"\"w\"", "\"XX\""});
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), 1, {"\"w\"", "shape"});
  check_corrupt(tensor_json("w", R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), 1,
                {"\"w\"", "shape"});
  check_corrupt(R"({"__metadata__":"x"})", 0, {"__metadata__"});
  for (const std::string_view value : {"1", "1.5", "-1", "null", "true", "[]", "{}"}) {
    check_corrupt("{\"__metadata__\":{\"round\":" + std::string(value) + "}}", 0,
                  {"\"round\"", "only strings"});
  }
  check_corrupt("{\"w\":" + std::string(100000, '['), 0, {"header"});
  check_corrupt(std::string(100000, '{') + "}", 0, {"header"});
}

TEST_CASE("A header that is no JSON object in UTF-8 is an error") {
  check_corrupt("", 0, {"start with"});
  check_corrupt("[]", 0, {"start with"});
  check_corrupt(" {}", 0, {"start with"});
  check_corrupt("\xEF\xBB\xBF{}", 0, {"start with"});
  check_corrupt("{", 0, {"end with"});
  check_corrupt("{}\n", 0, {"end with"});
  check_corrupt("{}{}", 0, {"JSON"});
  check_corrupt("{\"a\":}", 0, {"JSON"});
  check_corrupt("{}/**/}", 0, {"JSON"});
  check_corrupt(std::string_view("{}\0}", 4), 0, {"NUL"});
  check_corrupt(tensor_json("\xFF", R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1, {"UTF-8"});
  check_corrupt(tensor_json("\xC0\x80", R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1, {"UTF-8"});
  check_corrupt(tensor_json("\\ud800", R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1, {"JSON"});
  CHECK(refusal_of("{}      ", 0).empty());
}

TEST_CASE("Names are not empty and contain no NUL") {
  const std::string body = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  check_corrupt(tensor_json("", body), 1, {"empty name"});
  check_corrupt(tensor_json("a\\u0000b", body), 1, {"NUL"});
  check_corrupt(R"({"__metadata__":{"a\u0000":"x"}})", 0, {"NUL"});
}

TEST_CASE("Limits on header, tensors, names and dimensions are named, with too_large") {
  const std::string body = R"("dtype":"U8","shape":[1,1],"data_offsets":[0,1])";
  const std::string json = tensor_json("name", body);
  CHECK(refusal_of(json, 1,
                   {.header_bytes_max = json.size(), .tensors_max = 1, .name_bytes_max = 4, .rank_max = 2})
            .empty());
  for (const SafetensorsLimits &limits :
       {SafetensorsLimits{.header_bytes_max = json.size() - 1}, SafetensorsLimits{.tensors_max = 0},
        SafetensorsLimits{.name_bytes_max = 3}, SafetensorsLimits{.rank_max = 1}}) {
    const std::string reason = refusal_of(json, 1, limits);
    CAPTURE(reason);
    CHECK(reason.substr(0, 11) == "too_large: ");
    CHECK(contains(reason, "limit"));
  }
}

TEST_CASE("The writer refuses what no reader would take") {
  const auto code_of = [](std::vector<TensorSpec> specs,
                          const std::map<std::string, std::string> &metadata = {}) {
    const auto error = thrown_by([&] { layout_safetensors(std::move(specs), metadata); });
    return error ? error->code() : ErrorCode::ok;
  };
  const TensorSpec good{"w", Dtype::f32, {2}};
  CHECK(code_of({good}) == ErrorCode::ok);
  CHECK(code_of({good, good}) == ErrorCode::invalid_argument);
  CHECK(code_of({good, {"w", Dtype::f64, {2}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{"", Dtype::f32, {2}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{"__metadata__", Dtype::f32, {2}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{std::string("a\0b", 3), Dtype::f32, {2}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{"\xFF", Dtype::f32, {2}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({good}, {{"k", "\xFF"}}) == ErrorCode::invalid_argument);
  CHECK(code_of({good}, {{std::string("k\0", 2), "v"}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{"w", Dtype::f32, {UINT64_MAX, 3}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{"w", Dtype::u8, {UINT64_MAX / 8}},
                 {"x", Dtype::u8, {UINT64_MAX / 8}},
                 {"y", Dtype::u8, {UINT64_MAX / 8}},
                 {"z", Dtype::u8, {UINT64_MAX / 8}},
                 {"zz", Dtype::u8, {UINT64_MAX / 8}}}) == ErrorCode::invalid_argument);
  CHECK(code_of({{std::string(1025, 'n'), Dtype::f32, {2}}}) == ErrorCode::too_large);
  CHECK(code_of({{"w", Dtype::f32, std::vector<std::uint64_t>(17, 1)}}) == ErrorCode::too_large);
  CHECK(code_of({good}, {{"k", std::string(100'000'000, 'v')}}) == ErrorCode::too_large);
}

TEST_CASE("Data that do not fit their shape are refused before anything is written") {
  const StateDict state{{"w", Tensor{Dtype::f32, {2}, std::vector<std::byte>(7)}}};
  MemorySink sink;
  const auto error = thrown_by([&] { write_safetensors(state, sink); });
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::invalid_argument);
  CHECK(contains(error->message(), "\"w\""));
  CHECK(contains(error->message(), "8 bytes"));
  CHECK(contains(error->message(), "has 7"));
  CHECK(sink.bytes().empty());
}

TEST_CASE("Every truncation of a file is refused") {
  const std::vector<std::byte> file = file_of({{"a", f32({2}, {1, 2})}, {"b", f32({}, {3})}}, {{"k", "v"}});
  for (std::size_t length = 0; length < file.size(); ++length) {
    const std::vector<std::byte> part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    const auto error = thrown_by([&] { header_of(part); });
    if (!error || error->code() != ErrorCode::corrupt_data) FAIL("cut to " << length << " bytes");
  }
  CHECK(header_of(file).tensors.size() == 2);
}

TEST_CASE("A changed byte in the header gives a value or an Error, never anything else") {
  const std::vector<std::byte> file = file_of({{"a", f32({2}, {1, 2})}, {"b", f32({}, {3})}}, {{"k", "v"}});
  std::size_t refused = 0;
  for (std::size_t place = 0; place < file.size() - 12; ++place) {
    for (unsigned value = 0; value < 256; ++value) {
      std::vector<std::byte> changed = file;
      changed[place] = static_cast<std::byte>(value);
      try {
        const StateDict state = read_safetensors(MemorySource(changed));
        std::size_t bytes = 0;
        for (const auto &[name, tensor] : state) bytes += tensor.data.size();
        if (bytes != 12) FAIL("byte " << place << " as " << value << " reads " << bytes << " bytes of data");
      } catch (const Error &) {
        ++refused;
      }
    }
  }
  CHECK(refused > 10000);
}

TEST_CASE("Control characters of a peer's tensor name do not reach a message") {
  const std::string reason =
      refusal_of(tensor_json("evil\\u001b[2J\\n" + std::string(500, 'x'), R"("dtype":"XX")"), 0);
  CHECK(contains(reason, "evil?[2J?x"));
  CHECK(reason.size() < 300);
}
