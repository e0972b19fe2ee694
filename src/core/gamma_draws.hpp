// Draws from the normal, gamma and Dirichlet distributions, the same on every platform.
#pragma once

#include <cstddef>
#include <vector>

#include "core/random.hpp"

namespace parsyn::core {

/// Standard normal, by Marsaglia's polar method (1964); the second value of each pair is not used.
double draw_normal(Random &random);

/// The logarithm of a Gamma(alpha, 1) draw (Marsaglia and Tsang 2000). A logarithm, because for a small alpha
/// the draw itself is often smaller than any double.
double draw_log_gamma(Random &random, double alpha);

/// `count` shares, each >= 0, from a symmetric Dirichlet(alpha). Their largest is never 0, whatever alpha is.
std::vector<double> draw_dirichlet(Random &random, double alpha, std::size_t count);

}  // namespace parsyn::core
