#include "core/evaluation_mean.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"

using namespace parsyn;
using namespace parsyn::core;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kExamples = 100;

}  // namespace

TEST_CASE("evaluations are averaged by their examples, of which nobody has more than there are") {
  const Evaluation mean = mean_of({{1.0, 0.5, 100}, {4.0, 0.25, 50}}, kExamples).value();
  CHECK(mean.loss == Approx(2.0));
  CHECK(mean.accuracy.value() == Approx(0.5 - 0.25 / 3));
  CHECK(mean.num_examples == 100);
  CHECK(mean_of({{1.0, {}, UINT64_MAX}, {3.0, {}, 100}}, kExamples)->loss == Approx(2.0));
  CHECK_FALSE(mean_of({{1.0, 1.0, 0}}, kExamples));
  CHECK_FALSE(mean_of({}, kExamples));
}

TEST_CASE("a loss that is not finite neither wins nor hides what the others measured") {
  for (const double odd : {kNan, kInfinity, -kInfinity}) {
    CHECK(mean_of({{odd, {}, 100}, {2.0, {}, 100}, {2.0, {}, 100}}, kExamples)->loss == 2.0);
    CHECK(mean_of({{2.0, {}, 100}, {odd, {}, 100}}, kExamples)->loss == 2.0);
  }
  CHECK(mean_of({{-kInfinity, {}, 100}, {kNan, {}, 100}}, kExamples)->loss == -kInfinity);
  CHECK(std::isnan(mean_of({{kNan, {}, 100}}, kExamples)->loss));
  const double largest = std::numeric_limits<double>::max();
  CHECK(mean_of({{largest, {}, 100}, {largest, {}, 100}}, kExamples)->loss == largest);
  CHECK(mean_of({{largest, {}, 100}, {-largest, {}, 100}}, kExamples)->loss == 0);
}

TEST_CASE("an accuracy that is no share is left out") {
  for (const double odd : {kNan, kInfinity, -kInfinity, -0.1, 5.0, 1e308}) {
    CHECK(mean_of({{1.0, odd, 100}, {1.0, 0.5, 100}}, kExamples)->accuracy == 0.5);
    CHECK_FALSE(mean_of({{1.0, odd, 100}}, kExamples)->accuracy);
    CHECK_FALSE(without_impossible_accuracy({1.0, odd, 100}).accuracy);
  }
  for (const double right : {0.0, 0.5, 1.0})
    CHECK(without_impossible_accuracy({1.0, right, 100}).accuracy == right);
}
