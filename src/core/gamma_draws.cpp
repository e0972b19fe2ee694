#include "core/gamma_draws.hpp"

#include <algorithm>
#include <cmath>

#include "core/portable_math.hpp"

namespace parsyn::core {

double draw_normal(Random &random) {
  for (;;) {
    const double u = 2.0 * random.unit() - 1.0;
    const double v = 2.0 * random.unit() - 1.0;
    const double square = u * u + v * v;
    if (square > 0.0 && square < 1.0) return u * std::sqrt(-2.0 * portable_log(square) / square);
  }
}

double draw_log_gamma(Random &random, double alpha) {
  if (alpha < 1.0) {
    // Gamma(alpha) = Gamma(alpha + 1) * U^(1 / alpha), with U in (0, 1].
    const double above = draw_log_gamma(random, alpha + 1.0);
    return above + portable_log(1.0 - random.unit()) / alpha;
  }
  const double d = alpha - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double normal = draw_normal(random);
    const double root = 1.0 + c * normal;
    if (root <= 0.0) continue;
    const double cube = root * root * root;
    const double u = 1.0 - random.unit();
    if (portable_log(u) < 0.5 * normal * normal + d - d * cube + d * portable_log(cube)) {
      return portable_log(d) + portable_log(cube);
    }
  }
}

std::vector<double> draw_dirichlet(Random &random, double alpha, std::size_t count) {
  std::vector<double> shares(count);
  for (double &share : shares) share = draw_log_gamma(random, alpha);
  // Relative to the largest, which becomes exactly 1: the sum cannot be zero, so no share can be NaN.
  const double largest = *std::max_element(shares.begin(), shares.end());
  double sum = 0.0;
  for (double &share : shares) {
    share = portable_exp(share - largest);
    sum += share;
  }
  for (double &share : shares) share /= sum;
  return shares;
}

}  // namespace parsyn::core
