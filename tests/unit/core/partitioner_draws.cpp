#include <cmath>

#include "core/gamma_draws.hpp"
#include "core/portable_math.hpp"
#include "support/catch.hpp"

using namespace parsyn::core;

TEST_CASE("portable logarithm and exponential agree with the C library to the last digits") {
  for (double x = 1e-300; x < 1e300; x *= 7.3) {
    CHECK(portable_log(x) == Approx(std::log(x)).epsilon(1e-15).margin(1e-16));
  }
  for (double x = 0.5; x < 2.0; x += 0.001) {
    CHECK(portable_log(x) == Approx(std::log(x)).epsilon(4e-16).margin(1e-18));
  }
  CHECK(portable_log(1.0) == 0.0);
  for (double x = -700; x < 700; x += 0.37) CHECK(portable_exp(x) == Approx(std::exp(x)).epsilon(1e-15));
  CHECK(portable_exp(0.0) == 1.0);
  CHECK(portable_exp(-1e9) == 0.0);
  CHECK(portable_exp(-INFINITY) == 0.0);
}

TEST_CASE("gamma draws have the mean and variance of their distribution") {
  for (const double alpha : {0.3, 1.0, 4.5}) {
    Random random(11);
    const int draws = 40'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < draws; ++i) {
      const double value = std::exp(draw_log_gamma(random, alpha));
      sum += value;
      squares += value * value;
    }
    const double mean = sum / draws;
    CHECK(mean == Approx(alpha).epsilon(0.03));
    CHECK(squares / draws - mean * mean == Approx(alpha).epsilon(0.06));
  }
}

TEST_CASE("Dirichlet shares are finite and add up to one for every alpha") {
  for (const double alpha : {1e-6, 1e-3, 0.1, 1.0, 50.0, 1e6}) {
    Random random(2);
    for (int i = 0; i < 200; ++i) {
      double sum = 0;
      for (const double share : draw_dirichlet(random, alpha, 5)) {
        REQUIRE(std::isfinite(share));
        REQUIRE(share >= 0.0);
        sum += share;
      }
      CHECK(sum == Approx(1.0).epsilon(1e-12));
    }
  }
}
