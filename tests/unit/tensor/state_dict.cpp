#include "parsyn/state_dict.hpp"

#include <set>

#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using parsyn::test::contains;
using parsyn::test::thrown_by;

TEST_CASE("Dtypes have the names and sizes of safetensors") {
  const std::vector<std::pair<std::string, unsigned>> known{
      {"F64", 64},    {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"I64", 64},    {"I32", 32},
      {"I16", 16},    {"I8", 8},          {"U64", 64},        {"U32", 32},    {"U16", 16},    {"U8", 8},
      {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64}};
  std::set<Dtype> seen;
  for (const auto &[name, bits] : known) {
    CAPTURE(name);
    const std::optional<Dtype> dtype = parse_dtype(name);
    REQUIRE(dtype.has_value());
    CHECK(dtype_name(*dtype) == name);
    CHECK(dtype_bits(*dtype) == bits);
    seen.insert(*dtype);
  }
  CHECK(seen.size() == known.size());
  CHECK_FALSE(parse_dtype("XX").has_value());
  CHECK_FALSE(parse_dtype("f32").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
}

TEST_CASE("Four dtypes are averaged, integers and booleans are integral, the rest is neither") {
  std::set<std::string> averaged;
  std::set<std::string> integral;
  for (unsigned index = 0; index <= static_cast<unsigned>(Dtype::c64); ++index) {
    const auto dtype = static_cast<Dtype>(index);
    if (is_averaged(dtype)) averaged.emplace(dtype_name(dtype));
    if (is_integral(dtype)) integral.emplace(dtype_name(dtype));
  }
  CHECK(averaged == std::set<std::string>{"F64", "F32", "F16", "BF16"});
  CHECK(integral == std::set<std::string>{"I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"});
}

TEST_CASE("The number of elements is the product of the shape, 1 for a scalar") {
  CHECK(TensorSpec{"w", Dtype::f32, {}}.element_count() == 1);
  CHECK(TensorSpec{"w", Dtype::f32, {2, 3, 4}}.element_count() == 24);
  CHECK(TensorSpec{"w", Dtype::f32, {0, 10}}.element_count() == 0);
  CHECK(TensorSpec{"w", Dtype::f32, {2, 3}}.byte_size() == 24);
  CHECK(TensorSpec{"w", Dtype::f4, {2, 3}}.byte_size() == 3);
  CHECK(TensorSpec{"w", Dtype::f6_e2m3, {4}}.byte_size() == 3);
  CHECK(TensorSpec{"w", Dtype::u8, {UINT64_MAX / 8}}.byte_size() == UINT64_MAX / 8);
}

TEST_CASE(
    "A size that does not fit 64 bits, or does not fill the last byte, is an error naming tensor and shape") {
  const std::uint64_t half = std::uint64_t{1} << 32;
  for (const std::vector<std::uint64_t> &shape :
       {std::vector<std::uint64_t>{half, half}, {UINT64_MAX, 2}, {0, half, half}, {half, 0, half}}) {
    const auto error = thrown_by([&] { (void)TensorSpec{"big", Dtype::u8, shape}.element_count(); });
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::corrupt_data);
    CHECK(contains(error->message(), "\"big\""));
    CHECK(contains(error->message(), shape_text(shape)));
  }
  const auto bits = thrown_by([&] { (void)TensorSpec{"big", Dtype::f64, {half, half / 4}}.byte_size(); });
  REQUIRE(bits.has_value());
  CHECK(bits->code() == ErrorCode::corrupt_data);
  const auto partial = thrown_by([&] { (void)TensorSpec{"odd", Dtype::f4, {3}}.byte_size(); });
  REQUIRE(partial.has_value());
  CHECK(partial->code() == ErrorCode::corrupt_data);
  CHECK(contains(partial->message(), "last byte"));
}

TEST_CASE("Shapes are written as in Python") {
  CHECK(shape_text({}) == "[]");
  CHECK(shape_text({7}) == "[7]");
  CHECK(shape_text({2, 3}) == "[2, 3]");
}

TEST_CASE("F32 tensors are made from elements and give them back") {
  const Tensor made = make_f32_tensor({2, 2}, {1, -2, 0.5f, 3});
  CHECK(made.dtype == Dtype::f32);
  CHECK(made.data.size() == 16);
  CHECK(f32_elements(made) == std::vector<float>{1, -2, 0.5f, 3});
  CHECK(f32_elements(make_f32_tensor({0}, {})).empty());
  CHECK(f32_elements(make_f32_tensor({}, {4})) == std::vector<float>{4});

  const auto mismatch = thrown_by([] { make_f32_tensor({2, 2}, {1, 2, 3}); });
  REQUIRE(mismatch.has_value());
  CHECK(mismatch->code() == ErrorCode::invalid_argument);
  const auto overflow = thrown_by([] { make_f32_tensor({UINT64_MAX, 2}, {1}); });
  REQUIRE(overflow.has_value());
  CHECK(overflow->code() == ErrorCode::invalid_argument);
  const auto other = thrown_by([] { f32_elements(Tensor{Dtype::i32, {1}, std::vector<std::byte>(4)}); });
  REQUIRE(other.has_value());
  CHECK(other->code() == ErrorCode::invalid_argument);
  CHECK(contains(other->message(), "I32"));
}

TEST_CASE("Specs of a state dict are in name order") {
  const StateDict state{{"b", make_f32_tensor({1}, {1})}, {"a", make_f32_tensor({}, {2})}};
  const std::vector<TensorSpec> expected{{"a", Dtype::f32, {}}, {"b", Dtype::f32, {1}}};
  CHECK(specs_of(state) == expected);
}

TEST_CASE("A memory source refuses a range that does not lie within it") {
  const std::vector<std::byte> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  const MemorySource source(bytes);
  CHECK(source.size() == 3);
  std::vector<std::byte> out(2);
  source.read_at(1, out);
  CHECK(out == std::vector<std::byte>{std::byte{2}, std::byte{3}});
  source.read_at(3, {});
  for (const std::uint64_t offset : {std::uint64_t{2}, std::uint64_t{4}, UINT64_MAX}) {
    const auto error = thrown_by([&] { source.read_at(offset, out); });
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::corrupt_data);
  }
}
