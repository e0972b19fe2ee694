// Public failure reports about weight files.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "parsyn/aggregator.hpp"
#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// Bytes that remember the longest range that was asked for: the size of the buffer behind it.
class WatchedSource final : public ByteSource {
 public:
  explicit WatchedSource(const std::vector<std::byte> &bytes) : source_(bytes) {}
  std::uint64_t size() const override { return source_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    longest_ = std::max<std::uint64_t>(longest_, out.size());
    source_.read_at(offset, out);
  }
  std::uint64_t longest() const { return longest_; }

 private:
  MemorySource source_;
  mutable std::atomic<std::uint64_t> longest_ = 0;
};

/// A file of 2^40 zero bytes behind a header length, without the memory for it.
class HugeSource final : public ByteSource {
 public:
  explicit HugeSource(std::uint64_t header_length) : header_length_(header_length) {}
  std::uint64_t size() const override { return std::uint64_t{1} << 40; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    REQUIRE(offset == 0);
    REQUIRE(out.size() == 8);
    std::memcpy(out.data(), &header_length_, 8);
  }

 private:
  std::uint64_t header_length_;
};

/// The sentence of each path on which a file is loaded; they must agree that it is refused.
std::string refused_on_every_path(const std::vector<std::byte> &file) {
  const WatchedSource source(file);
  const auto header = thrown_by([&] { read_safetensors_header(source); });
  const auto whole = thrown_by([&] { read_safetensors(source); });
  InlineExecutor executor;
  const std::string validation = why_update_is_refused(source, {{"w", Dtype::f32, {2}}}, executor);
  REQUIRE(header.has_value());
  REQUIRE(whole.has_value());
  CHECK(header->code() == ErrorCode::corrupt_data);
  CHECK(whole->message() == header->message());
  CHECK(validation == header->message());
  CHECK(source.longest() <= file.size());
  return header->message();
}

std::string tensor_json(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{\"w\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}}";
}

}  // namespace

TEST_CASE("fault 71: the file ends where the header says, and its tensors neither leave gaps nor overlap") {
  std::vector<std::byte> longer = file_of({{"w", f32({2}, {1, 2})}});
  longer.resize(longer.size() + 16);
  const std::string extra = refused_on_every_path(longer);
  CHECK(contains(extra, "data offset 8"));
  CHECK(contains(extra, "24 bytes of data"));

  std::vector<std::byte> shorter = file_of({{"w", f32({2}, {1, 2})}});
  shorter.resize(shorter.size() - 3);
  const std::string missing = refused_on_every_path(shorter);
  CHECK(contains(missing, "[0, 8]"));
  CHECK(contains(missing, "5 bytes of data"));

  const auto pair = [](std::string_view first, std::string_view second) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + std::string(first) +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + std::string(second) + "}}";
  };
  CHECK(contains(refused_on_every_path(raw_file(pair("[0,4]", "[8,12]"), 12)), "a gap"));
  CHECK(contains(refused_on_every_path(raw_file(pair("[4,8]", "[8,12]"), 12)), "a gap"));
  CHECK(contains(refused_on_every_path(raw_file(pair("[0,4]", "[0,4]"), 4)), "an overlap"));
  CHECK(contains(refused_on_every_path(raw_file(pair("[0,4]", "[2,6]"), 6)), "an overlap"));
}

TEST_CASE("fault 72: headers of every length around a read-ahead size are read whole") {
  const StateDict expected{{"w", f32({2}, {0, 0})}};
  for (const std::size_t ahead : {512, 4096, 65536, 100'000, 131'072}) {
    for (const std::ptrdiff_t difference : {-8, -7, -6, -1, 0, 1}) {
      std::string json =
          R"({"__metadata__":{"filler":""},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
      const std::size_t length = ahead + static_cast<std::size_t>(difference);
      const std::string filler(length - json.size(), 'x');
      json.insert(json.find("\"},"), filler);
      REQUIRE(json.size() == length);
      const std::vector<std::byte> file = raw_file(json, 8);
      CHECK(read_safetensors(MemorySource(file)) == expected);
      CHECK(read_safetensors_header(MemorySource(file)).metadata.at("filler") == filler);
    }
  }
}

TEST_CASE("fault 74: no field of a header is believed before it is checked") {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::byte> file = file_of({{"w", f32({2}, {1, 2})}});
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63, UINT64_MAX, std::uint64_t{file.size()} + 1, std::uint64_t{file.size()} - 7}) {
    std::memcpy(file.data(), &length, 8);
    CHECK(contains(refused_on_every_path(file), std::to_string(length)));
  }
  const auto large = thrown_by([] { read_safetensors_header(HugeSource(100'000'001)); });
  REQUIRE(large.has_value());
  CHECK(large->code() == ErrorCode::too_large);
  CHECK(contains(large->message(), "100000000"));

  refused_on_every_path(raw_file(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                 R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                 8));
  CHECK(contains(refused_on_every_path(raw_file(tensor_json("F32", "[2]", "[8,0]"), 8)),
                 "end before they begin"));
  CHECK(contains(refused_on_every_path(raw_file(tensor_json("F32", "[2]", "[-4,4]"), 8)), "-4"));
  CHECK(contains(refused_on_every_path(raw_file(tensor_json("F32", "[2]", "[0,18446744073709551615]"), 8)),
                 "18446744073709551615"));
  CHECK(contains(refused_on_every_path(raw_file(tensor_json("F32", "[2]", "[0,18446744073709551616]"), 8)),
                 "64 bits"));
  CHECK(contains(refused_on_every_path(raw_file(tensor_json("XX", "[2]", "[0,8]"), 8)), "\"XX\""));
  const std::string size = refused_on_every_path(raw_file(tensor_json("F32", "[3]", "[0,8]"), 8));
  CHECK(contains(size, "needs 12 bytes"));
  CHECK(contains(size, "hold 8"));
  refused_on_every_path(raw_file(tensor_json("F32", "[4294967296,4294967296]", "[0,8]"), 8));
  refused_on_every_path(raw_file(tensor_json("F64", "[2305843009213693952]", "[0,0]"), 0));
  CHECK(contains(refused_on_every_path(raw_file(std::string(" ") + tensor_json("F32", "[2]", "[0,8]"), 8)),
                 "start with"));
  CHECK(contains(refused_on_every_path(raw_file("[1]", 0)), "start with"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

TEST_CASE("fault 75: a file of metadata only is written and read; values that are no strings are refused") {
  const std::map<std::string, std::string> metadata{{"round", "7"}};
  const std::vector<std::byte> file = file_of({}, metadata);
  const SafetensorsHeader header = read_safetensors_header(MemorySource(file));
  CHECK(header.metadata == metadata);
  CHECK(header.tensors.empty());
  CHECK(read_safetensors(MemorySource(file)).empty());
  CHECK(contains(refused_on_every_path(raw_file(R"({"__metadata__":{"round":7}})", 0)), "\"round\""));
}

TEST_CASE("fault 76: empty and scalar tensors are written, read and aggregated with their shapes") {
  const auto state = [](float value) -> StateDict {
    return {{"a", f32({0}, {})}, {"b", f32({0, 10}, {})}, {"c", f32({}, {value})}};
  };
  const std::vector<std::byte> file = file_of(state(1));
  CHECK(read_safetensors(MemorySource(file)) == state(1));
  CHECK(refusal(file, specs_of(state(0))).empty());
  Updates updates;
  updates.add(1, 1, state(1)).add(2, 1, state(4));
  CHECK(aggregate(specs_of(state(0)), updates.list()) == state(2.5f));
}

TEST_CASE("fault 80: elements are little-endian in the file") {
  const std::vector<std::byte> file = file_of({{"a", make_f32_tensor({1}, {1.0f})},
                                               {"b", tensor_of<std::uint16_t>(Dtype::bf16, {1}, {0x3F80})},
                                               {"c", tensor_of<std::int64_t>(Dtype::i64, {1}, {1})}});
  const std::vector<unsigned> expected{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3F, 0x80, 0x3F};
  REQUIRE(file.size() > expected.size());
  std::vector<unsigned> data;
  for (auto byte = file.end() - static_cast<std::ptrdiff_t>(expected.size()); byte != file.end(); ++byte) {
    data.push_back(std::to_integer<unsigned>(*byte));
  }
  CHECK(data == expected);
  CHECK(std::to_integer<unsigned>(file[0]) == file.size() - expected.size() - 8);
}
