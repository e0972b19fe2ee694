#include "tensor/half.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/updates.hpp"
#include "tensor/masters.hpp"

using namespace parsyn;
using namespace parsyn::tensor;

namespace {

struct Format {
  const char *name;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(double);
  int exponent_bits;
  int fraction_bits;

  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1u << exponent_bits) - 1) << fraction_bits);
  }
};

const Format kFormats[] = {{"F16", f32_from_f16, f16_from_f64, 5, 10},
                           {"BF16", f32_from_bf16, bf16_from_f64, 8, 7}};

/// What the bits mean by the definition of the format, for a number that is neither NaN nor infinite.
double meaning(const Format &format, std::uint16_t bits) {
  const int exponent = (bits & 0x7FFF) >> format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - format.fraction_bits)
                                         : std::ldexp(fraction + (1 << format.fraction_bits),
                                                      exponent - bias - format.fraction_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

TEST_CASE("Every half widens to what its bits mean, and narrows back to the same bits") {
  for (const Format &format : kFormats) {
    CAPTURE(format.name);
    for (unsigned code = 0; code <= 0xFFFF; ++code) {
      const auto bits = static_cast<std::uint16_t>(code);
      const unsigned magnitude = code & 0x7FFF;
      const float wide = format.widen(bits);
      bool right = false;
      if (magnitude < format.infinity()) {
        right = same_bits(wide, meaning(format, bits)) && format.narrow(wide) == bits;
      } else if (magnitude == format.infinity()) {
        right = std::isinf(wide) && std::signbit(wide) == (code > 0x7FFF) && format.narrow(wide) == bits;
      } else {
        // A NaN keeps its sign and payload, and becomes quiet.
        right = std::isnan(wide) && format.narrow(wide) == (bits | 1u << (format.fraction_bits - 1));
      }
      if (!right) FAIL("bits " << code);
    }
  }
  SUCCEED();
}

TEST_CASE("Narrowing rounds to the nearest half, ties to even") {
  for (const Format &format : kFormats) {
    CAPTURE(format.name);
    for (unsigned code = 0; code + 1 < format.infinity(); ++code) {
      const auto low = static_cast<std::uint16_t>(code);
      const auto high = static_cast<std::uint16_t>(code + 1);
      // Exact in double, and so are its neighbours.
      const double middle = (meaning(format, low) + meaning(format, high)) / 2;
      const std::uint16_t even = code % 2 == 0 ? low : high;
      const auto negative = [](std::uint16_t bits) { return static_cast<std::uint16_t>(bits | 0x8000); };
      const bool right = format.narrow(middle) == even && format.narrow(-middle) == negative(even) &&
                         format.narrow(std::nextafter(middle, 0.0)) == low &&
                         format.narrow(std::nextafter(middle, 1e300)) == high &&
                         format.narrow(-std::nextafter(middle, 1e300)) == negative(high);
      if (!right) FAIL("between " << code << " and " << code + 1);
    }
  }
  SUCCEED();
}

TEST_CASE("Beyond the largest half lies infinity, from half a unit on") {
  CHECK(f16_from_f64(65504) == 0x7BFF);
  CHECK(f16_from_f64(std::nextafter(65520.0, 0.0)) == 0x7BFF);
  CHECK(f16_from_f64(65520) == 0x7C00);
  CHECK(f16_from_f64(-65520) == 0xFC00);
  CHECK(f16_from_f32(1e30f) == 0x7C00);
  CHECK(bf16_from_f32(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(bf16_from_f64(1e300) == 0x7F80);
  CHECK(f16_from_f64(std::numeric_limits<double>::infinity()) == 0x7C00);
  CHECK(bf16_from_f64(-std::numeric_limits<double>::infinity()) == 0xFF80);
}

TEST_CASE("What is too small becomes a zero of the same sign") {
  CHECK(f16_from_f64(0x1p-25) == 0x0000);
  CHECK(f16_from_f64(std::nextafter(0x1p-25, 1.0)) == 0x0001);
  CHECK(f16_from_f64(-0x1p-26) == 0x8000);
  CHECK(bf16_from_f64(0x1p-134) == 0x0000);
  CHECK(bf16_from_f64(-1e-310) == 0x8000);
  CHECK(f16_from_f32(-0.0f) == 0x8000);
}

TEST_CASE("A double is rounded once, not to float first") {
  // Just above the middle of two halves, by less than a float can hold: rounding twice would end below.
  const double above = 1 + 0x1p-11 + 0x1p-40;
  CHECK(f16_from_f64(above) == 0x3C01);
  CHECK(f16_from_f32(static_cast<float>(above)) == 0x3C00);
  CHECK(bf16_from_f64(1 + 0x1p-8 + 0x1p-40) == 0x3F81);
}

TEST_CASE("Masters of 16-bit floats are F32, exactly; everything else stays as it is") {
  StateDict state{{"a", test::tensor_of<std::uint16_t>(Dtype::f16, {2}, {0x3C00, 0x0001})},
                  {"b", test::tensor_of<std::uint16_t>(Dtype::bf16, {1, 2}, {0x3FC0, 0xC000})},
                  {"c", test::tensor_of<std::int64_t>(Dtype::i64, {}, {7})},
                  {"d", make_f32_tensor({1}, {2.5f})},
                  {"e", test::tensor_of<double>(Dtype::f64, {1}, {0.1})}};
  const StateDict masters = widen_to_f32_masters(state);
  CHECK(masters.at("a") == make_f32_tensor({2}, {1.0f, 0x1p-24f}));
  CHECK(masters.at("b") == make_f32_tensor({1, 2}, {1.5f, -2.0f}));
  CHECK(masters.at("c") == state.at("c"));
  CHECK(masters.at("d") == state.at("d"));
  CHECK(masters.at("e") == state.at("e"));
  CHECK(masters.size() == 5);

  state["a"].data.pop_back();
  const auto error = test::thrown_by([&] { widen_to_f32_masters(state); });
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::invalid_argument);
  CHECK(test::contains(error->message(), "\"a\""));
}
