// FedAvgAggregator: what it computes, dtype by dtype, and what it refuses.
#include <cmath>
#include <limits>
#include <random>

#include "parsyn/aggregator.hpp"
#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

template <typename Element>
Element mean_of(Dtype dtype, const std::vector<std::pair<std::uint64_t, Element>> &weighted) {
  Updates updates;
  std::uint64_t worker = 1;
  for (const auto &[weight, element] : weighted) {
    updates.add(worker++, weight, {{"x", tensor_of<Element>(dtype, {}, {element})}});
  }
  const StateDict result = aggregate({{"x", dtype, {}}}, updates.list());
  REQUIRE(result.at("x").data.size() == sizeof(Element));
  Element mean{};
  std::memcpy(&mean, result.at("x").data.data(), sizeof mean);
  return mean;
}

std::optional<Error> refusal_of_call(const std::vector<TensorSpec> &specs, const std::vector<Update> &updates,
                                     std::uint64_t block_elements = 16) {
  InlineExecutor executor;
  return thrown_by([&] { aggregate_bytes(specs, updates, executor, block_elements); });
}

const std::vector<TensorSpec> kSpecs = specs_of(constant_model(0));

}  // namespace

TEST_CASE("The mean is weighted by examples in every averaged dtype") {
  CHECK(mean_of<double>(Dtype::f64, {{1, 2.0}, {3, 6.0}}) == 5.0);
  CHECK(mean_of<float>(Dtype::f32, {{1, 2.0f}, {3, 6.0f}}) == 5.0f);
  CHECK(mean_of<std::uint16_t>(Dtype::f16, {{1, 0x4000}, {3, 0x4600}}) == 0x4500);
  CHECK(mean_of<std::uint16_t>(Dtype::bf16, {{1, 0x4000}, {3, 0x40C0}}) == 0x40A0);
}

TEST_CASE("The mean is rounded once to the stored dtype") {
  // (1 + (1 + 2^-23)) / 2 lies in the middle of two floats, and goes to the even one.
  CHECK(mean_of<float>(Dtype::f32, {{1, 1.0f}, {1, 1 + 0x1p-23f}}) == 1.0f);
  CHECK(mean_of<float>(Dtype::f32, {{1, 1 + 0x1p-23f}, {1, 1 + 0x1p-22f}}) == 1 + 0x1p-22f);
  // A little above the middle of two halves: through a float it would end on the middle, then on the lower
  // one.
  const std::uint64_t n = std::uint64_t{1} << 30;
  CHECK(mean_of<std::uint16_t>(Dtype::bf16, {{n - 1, 0x3F80}, {n + 1, 0x3F81}}) == 0x3F81);
  CHECK(mean_of<std::uint16_t>(Dtype::f16, {{n - 1, 0x3C00}, {n + 1, 0x3C01}}) == 0x3C01);
  // Subnormal numbers are averaged like others.
  CHECK(mean_of<std::uint16_t>(Dtype::f16, {{1, 0x0002}, {1, 0x0004}}) == 0x0003);
  CHECK(mean_of<float>(Dtype::f32, {{1, 0x1p-149f}, {1, 0x1.8p-148f}}) == 0x1p-148f);
}

TEST_CASE("Integers of every width give the maximum, as integers") {
  CHECK(mean_of<std::int64_t>(Dtype::i64, {{1, 5}, {3, 7}}) == 7);
  CHECK(mean_of<std::int64_t>(Dtype::i64, {{1, INT64_MAX - 1}, {3, INT64_MAX}, {1, INT64_MIN}}) == INT64_MAX);
  CHECK(mean_of<std::int64_t>(Dtype::i64,
                              {{1, -(std::int64_t{1} << 60) - 1}, {1, -(std::int64_t{1} << 60) - 2}}) ==
        -(std::int64_t{1} << 60) - 1);
  CHECK(mean_of<std::uint64_t>(Dtype::u64, {{1, UINT64_MAX}, {1, UINT64_MAX - 1}, {1, 1}}) == UINT64_MAX);
  CHECK(mean_of<std::uint64_t>(Dtype::u64, {{1, std::uint64_t{1} << 63}, {1, INT64_MAX}}) == std::uint64_t{1}
                                                                                                 << 63);
  CHECK(mean_of<std::int32_t>(Dtype::i32, {{1, -5}, {9, -7}}) == -5);
  CHECK(mean_of<std::int16_t>(Dtype::i16, {{1, -32768}, {9, 32767}}) == 32767);
  CHECK(mean_of<std::int32_t>(Dtype::i32, {{1, -5}, {9, 4}}) == 4);
  CHECK(mean_of<std::int8_t>(Dtype::i8, {{1, -1}, {9, -128}}) == -1);
  CHECK(mean_of<std::int8_t>(Dtype::i8, {{1, -1}, {9, 5}}) == 5);
  CHECK(mean_of<std::uint32_t>(Dtype::u32, {{1, 0x80000000u}, {9, 1}}) == 0x80000000u);
  CHECK(mean_of<std::uint16_t>(Dtype::u16, {{1, 0x8000}, {9, 1}}) == 0x8000);
  CHECK(mean_of<std::uint8_t>(Dtype::u8, {{1, 0x80}, {9, 1}}) == 0x80);
  CHECK(mean_of<std::uint8_t>(Dtype::boolean, {{1, 0}, {9, 1}}) == 1);
  CHECK(mean_of<std::uint8_t>(Dtype::boolean, {{1, 0}, {9, 0}}) == 0);
  // Equal on all: that value, also one that a double cannot hold.
  const std::int64_t odd = (std::int64_t{1} << 62) + 1;
  CHECK(mean_of<std::int64_t>(Dtype::i64, {{2, odd}, {3, odd}}) == odd);
}

TEST_CASE("Updates of zero examples add nothing, to sums and to maxima") {
  CHECK(mean_of<float>(Dtype::f32, {{0, 1000.0f}, {2, 3.0f}}) == 3.0f);
  CHECK(mean_of<std::int64_t>(Dtype::i64, {{0, 1000}, {2, 3}}) == 3);
  // Not even a file that does not fit counts, or is looked at.
  Updates updates;
  updates.add(1, 2, constant_model(3)).add_file(2, 0, {});
  CHECK(aggregate(kSpecs, updates.list()) == constant_model(3));
}

TEST_CASE("Empty tensors, scalars, and tensors larger than a block are aggregated, shapes kept") {
  const auto state = [](float value) -> StateDict {
    return {{"empty", f32({0, 10}, {})},
            {"large", f32({5, 5}, std::vector<float>(25, value))},
            {"none", f32({0}, {})},
            {"scalar", f32({}, {value})}};
  };
  Updates updates;
  updates.add(1, 1, state(1)).add(2, 1, state(2));
  InlineExecutor executor;
  for (const std::uint64_t block : {1, 2, 24, 25, 26}) {
    const std::vector<std::byte> file = aggregate_bytes(specs_of(state(0)), updates.list(), executor, block);
    CHECK(read_safetensors(MemorySource(file)) == state(1.5f));
  }
  Updates nothing;
  nothing.add(1, 1, {});
  CHECK(aggregate({}, nothing.list()).empty());
}

TEST_CASE("The result is a file as the codec lays it out, with the metadata that was asked for") {
  const StateDict state{{"a", f32({2}, {1, 2})}, {"b", tensor_of<std::int64_t>(Dtype::i64, {}, {3})}};
  Updates updates;
  updates.add(9, 4, state);
  InlineExecutor executor;
  MemorySink sink;
  FedAvgAggregator().aggregate(specs_of(state), updates.list(), executor, sink, {{"round", "7"}});
  CHECK(sink.bytes() == file_of(state, {{"round", "7"}}));
}

TEST_CASE("Each update's own offsets are used, aligned or not") {
  // The same tensors in another order, behind a header whose length is no multiple of anything.
  const std::string json =
      R"({"b":{"dtype":"I16","shape":[1],"data_offsets":[1,3]},"c":{"dtype":"F64","shape":[2],"data_offsets":[3,19]},)"
      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} )";
  std::vector<std::byte> odd = raw_file(json, 19);
  std::byte *data = odd.data() + 8 + json.size();
  const std::uint8_t a = 200;
  const std::int16_t b = -3;
  const double c[2] = {1.5, -8};
  std::memcpy(data, &a, sizeof a);
  std::memcpy(data + 1, &b, sizeof b);
  std::memcpy(data + 3, c, sizeof c);
  const StateDict even{{"a", tensor_of<std::uint8_t>(Dtype::u8, {1}, {100})},
                       {"b", tensor_of<std::int16_t>(Dtype::i16, {1}, {-2})},
                       {"c", tensor_of<double>(Dtype::f64, {2}, {2.5, 4})}};
  const StateDict expected{{"a", tensor_of<std::uint8_t>(Dtype::u8, {1}, {200})},
                           {"b", tensor_of<std::int16_t>(Dtype::i16, {1}, {-2})},
                           {"c", tensor_of<double>(Dtype::f64, {2}, {2, -2})}};
  Updates updates;
  updates.add_file(1, 1, odd).add(2, 1, even);
  CHECK(refusal(odd, specs_of(even)).empty());
  CHECK(aggregate(specs_of(even), updates.list()) == expected);
}

TEST_CASE("Calls that make no sense are refused with invalid_argument") {
  Updates one;
  one.add(1, 1, constant_model(1));
  const auto refused = [](const std::optional<Error> &error, std::string_view words) {
    REQUIRE(error.has_value());
    CAPTURE(error->message());
    CHECK(error->code() == ErrorCode::invalid_argument);
    CHECK(contains(error->message(), words));
  };
  refused(refusal_of_call(kSpecs, {}), "no updates");
  refused(refusal_of_call(kSpecs, {one.list()[0], one.list()[0]}), "worker 1 has two updates");
  refused(refusal_of_call(kSpecs, {Update{1, 1, nullptr}}), "no source");
  refused(refusal_of_call(kSpecs, one.list(), 0), "block_elements");
  refused(refusal_of_call({{"w", Dtype::f8_e4m3, {8}}}, one.list()), "F8_E4M3");
  refused(refusal_of_call({{"w", Dtype::c64, {8}}}, one.list()), "C64");
  refused(refusal_of_call({kSpecs[0], kSpecs[0]}, one.list()), "twice");
  Updates zero;
  zero.add(1, 0, constant_model(1));
  refused(refusal_of_call(kSpecs, zero.list()), "total weight 0");
  Updates many;
  many.add(1, std::uint64_t{1} << 53, constant_model(1)).add(2, 1, constant_model(1));
  refused(refusal_of_call(kSpecs, many.list()), "2^53");
}

TEST_CASE("An update that does not fit is an error that names its worker") {
  for (const std::vector<std::byte> &file :
       {file_of({{"w", f32({4}, {1, 1, 1, 1})}}), file_of({}), std::vector<std::byte>(3)}) {
    Updates updates;
    updates.add(1, 1, constant_model(1)).add_file(77, 1, file);
    const auto error = refusal_of_call(kSpecs, updates.list());
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::corrupt_data);
    CHECK(contains(error->message(), "worker 77"));
  }
}

TEST_CASE("A result that is not finite is an error that names tensor and index") {
  const double huge = std::numeric_limits<double>::max();
  std::vector<double> values(40, 1);
  values[33] = huge;
  const StateDict state{{"x", tensor_of(Dtype::f64, {40}, values)}};
  Updates updates;
  updates.add(1, 1, state).add(2, 1, state);
  const auto error = refusal_of_call(specs_of(state), updates.list());
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::corrupt_data);
  CHECK(contains(error->message(), "\"x\" is not finite at index 33"));

  // Infinities of both signs make a NaN, in a file that nobody validated.
  for (const auto &[dtype, infinity] :
       {std::pair<Dtype, std::uint16_t>{Dtype::f16, 0x7C00}, {Dtype::bf16, 0x7F80}}) {
    Updates bad;
    bad.add(1, 1, {{"x", tensor_of<std::uint16_t>(dtype, {1}, {infinity})}});
    bad.add(2, 1,
            {{"x", tensor_of<std::uint16_t>(dtype, {1}, {static_cast<std::uint16_t>(infinity | 0x8000)})}});
    const auto nan = refusal_of_call({{"x", dtype, {1}}}, bad.list());
    REQUIRE(nan.has_value());
    CHECK(nan->code() == ErrorCode::corrupt_data);
  }
}

TEST_CASE("The largest numbers of the 32- and 16-bit dtypes average without overflow") {
  const float largest = std::numeric_limits<float>::max();
  CHECK(mean_of<float>(Dtype::f32, {{7, largest}, {1000000, largest}}) == largest);
  CHECK(mean_of<std::uint16_t>(Dtype::f16, {{7, 0x7BFF}, {1000000, 0x7BFF}}) == 0x7BFF);
  CHECK(mean_of<std::uint16_t>(Dtype::bf16, {{7, 0xFF7F}, {1000000, 0xFF7F}}) == 0xFF7F);
}

TEST_CASE("An exception of a source reaches the caller") {
  class BreaksLater final : public ByteSource {
   public:
    explicit BreaksLater(std::vector<std::byte> file) : file_(std::move(file)), source_(file_) {}
    std::uint64_t size() const override { return file_.size(); }
    void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
      if (offset >= file_.size() - 4) throw Error(ErrorCode::io, "bad sector");
      source_.read_at(offset, out);
    }

   private:
    std::vector<std::byte> file_;
    MemorySource source_;
  };
  const BreaksLater source(file_of(constant_model(1)));
  for (const unsigned threads : {1u, 3u}) {
    ThreadExecutor executor(threads);
    const auto error = thrown_by([&] { aggregate_bytes(kSpecs, {{1, 1, &source}}, executor, 1); });
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::io);
    CHECK(error->message() == "bad sector");
  }
}

TEST_CASE("An update whose storage is not there now is not taken for a damaged one") {
  struct Unreachable final : ByteSource {
    explicit Unreachable(ErrorCode reason) : code(reason) {}
    std::uint64_t size() const override { return 1'000; }
    void read_at(std::uint64_t, std::span<std::byte>) const override { throw Error(code, "not there now"); }
    ErrorCode code;
  };
  for (const ErrorCode code :
       {ErrorCode::io, ErrorCode::unavailable, ErrorCode::timeout, ErrorCode::cancelled}) {
    const Unreachable source(code);
    const auto error = refusal_of_call(kSpecs, {{1, 1, &source}});
    REQUIRE(error.has_value());
    CHECK(error->code() == code);
  }
  for (const ErrorCode code : {ErrorCode::corrupt_data, ErrorCode::too_large}) {
    const Unreachable source(code);
    const auto error = refusal_of_call(kSpecs, {{1, 1, &source}});
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::corrupt_data);
    CHECK(contains(error->message(), "worker 1"));
  }
}
