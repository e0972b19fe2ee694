#include "aggregation/finite.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace parsyn;
using parsyn::aggregation::first_not_finite;

namespace {

template <typename Element>
std::optional<std::uint64_t> scan(Dtype dtype, const std::vector<Element> &elements) {
  return first_not_finite(dtype, std::as_bytes(std::span(elements)));
}

/// Puts `bad` at several places of a long run of `good`, and expects the first of them.
template <typename Element>
void check_found(Dtype dtype, Element good, const std::vector<Element> &bads) {
  CAPTURE(dtype_name(dtype));
  CHECK(scan(dtype, std::vector<Element>(10001, good)) == std::nullopt);
  CHECK(scan(dtype, std::vector<Element>{}) == std::nullopt);
  for (const Element &bad : bads) {
    for (const std::size_t place : {0, 1, 4095, 4096, 9999, 10000}) {
      std::vector<Element> elements(10001, good);
      elements[place] = bad;
      elements[10000] = bad;
      CHECK(scan(dtype, elements) == std::optional<std::uint64_t>(place));
    }
  }
}

}  // namespace

TEST_CASE("The first NaN or infinity is found in every averaged dtype") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_found<double>(Dtype::f64, std::numeric_limits<double>::max(), {infinity, -infinity, nan, -nan});
  const auto narrow = [](double value) { return static_cast<float>(value); };
  check_found<float>(Dtype::f32, -std::numeric_limits<float>::max(),
                     {narrow(infinity), narrow(-infinity), narrow(nan)});
  check_found<std::uint16_t>(Dtype::f16, 0x7BFF, {0x7C00, 0xFC00, 0x7C01, 0xFFFF});
  check_found<std::uint16_t>(Dtype::bf16, 0xFF7F, {0x7F80, 0xFF80, 0x7F81, 0xFFFF});
}

TEST_CASE("Integers are always finite") {
  for (const Dtype dtype : {Dtype::i64, Dtype::u32, Dtype::u16, Dtype::i8, Dtype::boolean}) {
    CHECK(scan<std::uint64_t>(dtype, {UINT64_MAX, 0x7FF0'0000'0000'0000}) == std::nullopt);
  }
}
