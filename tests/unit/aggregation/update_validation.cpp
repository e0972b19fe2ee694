#include <limits>

#include "parsyn/aggregator.hpp"
#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

const std::vector<TensorSpec> kModel{{"b", Dtype::f32, {2}}, {"w", Dtype::f32, {2, 3}}};

StateDict model() { return {{"w", f32({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", f32({2}, {7, 8})}}; }

/// Fails as a disk does.
class BrokenSource final : public ByteSource {
 public:
  std::uint64_t size() const override { return 1000; }
  void read_at(std::uint64_t, std::span<std::byte>) const override {
    throw Error(ErrorCode::io, "disk on fire");
  }
};

}  // namespace

TEST_CASE("An update with exactly the model's names, shapes and dtypes is accepted") {
  CHECK(refusal(file_of(model()), kModel).empty());
  CHECK(refusal(file_of(model(), {{"any", "metadata"}}), kModel).empty());
  CHECK(refusal(file_of({}), {}).empty());
  // The order of the expected tensors says nothing.
  CHECK(refusal(file_of(model()), {kModel[1], kModel[0]}).empty());
}

TEST_CASE("Names, shapes and dtypes that differ are named with both sides") {
  StateDict state = model();
  state["w"].shape = {3, 2};
  const std::string shape = refusal(file_of(state), kModel);
  CHECK(contains(shape, "\"w\""));
  CHECK(contains(shape, "[3, 2]"));
  CHECK(contains(shape, "[2, 3]"));

  state = model();
  state["w"].dtype = Dtype::i32;
  const std::string dtype = refusal(file_of(state), kModel);
  CHECK(contains(dtype, "\"w\""));
  CHECK(contains(dtype, "I32"));
  CHECK(contains(dtype, "F32"));

  state = model();
  state.erase("b");
  CHECK(contains(refusal(file_of(state), kModel), "\"b\" is missing"));
  state = model();
  state["x"] = f32({}, {1});
  CHECK(contains(refusal(file_of(state), kModel), "\"x\" is unexpected"));
}

TEST_CASE("What is not a safetensors file, or exceeds a limit, is a refusal and no exception") {
  CHECK_FALSE(refusal({}, kModel).empty());
  CHECK_FALSE(refusal(std::vector<std::byte>(1000), kModel).empty());
  const std::vector<std::byte> file = file_of(model());
  InlineExecutor executor;
  ValidationLimits limits;
  limits.header.header_bytes_max = 16;
  CHECK(contains(why_update_is_refused(MemorySource(file), kModel, executor, limits), "limit is 16"));
}

TEST_CASE("A source that cannot be read says nothing about the update: the error goes on") {
  InlineExecutor executor;
  const auto error = thrown_by([&] { why_update_is_refused(BrokenSource(), kModel, executor); });
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::io);
}

TEST_CASE("The first value that is not finite is named by tensor and index, on any number of threads") {
  // Longer than several blocks of a scan.
  constexpr std::uint64_t kLong = 300'000;
  const std::vector<TensorSpec> specs{
      {"a", Dtype::f32, {kLong}}, {"b", Dtype::f64, {kLong}}, {"c", Dtype::i32, {1}}};
  std::vector<float> a(kLong, 1);
  std::vector<double> b(kLong, 1);
  const auto reason = [&](Executor &executor) {
    const std::vector<std::byte> file =
        file_of({{"a", f32({kLong}, a)},
                 {"b", tensor_of(Dtype::f64, {kLong}, b)},
                 // As a float these bits would be a NaN.
                 {"c", tensor_of<std::uint32_t>(Dtype::i32, {1}, {0x7FFFFFFF})}});
    return why_update_is_refused(MemorySource(file), specs, executor);
  };
  const auto same_on_all = [&](const std::string &words) {
    InlineExecutor inline_executor;
    const std::string expected = reason(inline_executor);
    CAPTURE(expected);
    CHECK(contains(expected, words));
    for (const unsigned threads : {2u, 3u, 16u}) {
      ThreadExecutor executor(threads);
      CHECK(reason(executor) == expected);
    }
  };
  same_on_all("");
  b[123'456] = -std::numeric_limits<double>::infinity();
  b[299'999] = std::numeric_limits<double>::quiet_NaN();
  same_on_all("\"b\" is not finite (NaN or infinity) at index 123456 of its 300000 elements");
  a[200'000] = std::numeric_limits<float>::quiet_NaN();
  same_on_all("\"a\" is not finite (NaN or infinity) at index 200000 ");
  a[70'001] = std::numeric_limits<float>::infinity();
  same_on_all("\"a\" is not finite (NaN or infinity) at index 70001 ");
}
