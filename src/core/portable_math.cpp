#include "core/portable_math.hpp"

#include <cmath>

namespace parsyn::core {
namespace {

// ln 2 in two parts: the upper one has few enough bits that a small integer times it is exact.
constexpr double kLn2Upper = 0x1.62e42fee00000p-1;
constexpr double kLn2Lower = 0x1.a39ef35793c76p-33;
constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;

}  // namespace

double portable_log(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);  // in [1/2, 1)
  if (fraction < kSqrtHalf) {
    fraction *= 2.0;
    --exponent;
  }
  // ln f = 2 artanh s with s = (f - 1) / (f + 1), where s * s < 0.03: thirteen terms pass double's precision.
  const double s = (fraction - 1.0) / (fraction + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int term = 12; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
  const double count = exponent;
  return count * kLn2Upper + (2.0 * s * sum + count * kLn2Lower);
}

double portable_exp(double x) {
  if (x < -745.0) return 0.0;
  const double count = std::floor(x / (kLn2Upper + kLn2Lower) + 0.5);
  const double rest = (x - count * kLn2Upper) - count * kLn2Lower;  // within ln 2 / 2 of zero
  double sum = 1.0;
  for (int term = 18; term >= 1; --term) sum = 1.0 + sum * rest / term;
  return std::ldexp(sum, static_cast<int>(count));
}

}  // namespace parsyn::core
