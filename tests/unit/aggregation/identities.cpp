// Properties that FedAvg has whatever the numbers are, on seeded random updates.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "parsyn/aggregator.hpp"
#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

constexpr std::uint64_t kElements = 10'000;

/// Finite elements of any sign, with exponents around 0: as weights are, but with all bits of the fraction in
/// use.
Tensor random_tensor(Dtype dtype, std::uint64_t count, std::mt19937_64 &random) {
  const auto any = [&](auto exponent_low, int exponent_steps, int fraction_bits) {
    using Bits = decltype(exponent_low);
    std::vector<Bits> elements(count);
    for (Bits &element : elements) {
      const std::uint64_t exponent = exponent_low + random() % static_cast<unsigned>(exponent_steps);
      const std::uint64_t fraction = random() & ((std::uint64_t{1} << fraction_bits) - 1);
      element = static_cast<Bits>(random() << (sizeof(Bits) * 8 - 1) | exponent << fraction_bits | fraction);
    }
    return tensor_of(dtype, {count}, elements);
  };
  switch (dtype) {
    case Dtype::f64:
      return any(std::uint64_t{1013}, 20, 52);
    case Dtype::f32:
      return any(std::uint32_t{117}, 20, 23);
    case Dtype::f16:
      return any(std::uint16_t{0}, 30, 10);
    case Dtype::bf16:
      return any(std::uint16_t{117}, 20, 7);
    default:
      return any(std::uint64_t{0}, 2047, 52);
  }
}

StateDict random_model(std::mt19937_64 &random, std::uint64_t count = 5000) {
  return {{"a", random_tensor(Dtype::f32, count, random)},
          {"b", random_tensor(Dtype::f64, count / 3, random)},
          {"c", random_tensor(Dtype::bf16, count, random)},
          {"d", random_tensor(Dtype::f16, 17, random)},
          {"e", random_tensor(Dtype::i64, count / 7, random)},
          {"f", random_tensor(Dtype::f32, 1, random)}};
}

template <typename Float, typename Bits>
std::uint64_t units_apart(Float a, Float b) {
  const auto order = [](Float value) {
    const auto bits = static_cast<std::int64_t>(std::bit_cast<Bits>(std::abs(value)));
    return std::signbit(value) ? -bits : bits;
  };
  return static_cast<std::uint64_t>(std::abs(order(a) - order(b)));
}

/// One full-batch step of least squares, y = x . w, from `w`: the gradient is the mean over the examples.
template <typename Float>
std::vector<Float> gradient_step(const std::vector<Float> &w, const std::vector<std::vector<Float>> &x,
                                 const std::vector<Float> &y, std::size_t begin, std::size_t end) {
  std::vector<Float> gradient(w.size(), 0);
  for (std::size_t row = begin; row < end; ++row) {
    Float error = -y[row];
    for (std::size_t k = 0; k < w.size(); ++k) error += w[k] * x[row][k];
    for (std::size_t k = 0; k < w.size(); ++k) gradient[k] += error * x[row][k];
  }
  std::vector<Float> next = w;
  for (std::size_t k = 0; k < w.size(); ++k)
    next[k] -= Float(0.1) * gradient[k] / static_cast<Float>(end - begin);
  return next;
}

/// The largest difference between FedAvg of one full-batch step per worker and gradient descent on the pooled
/// data.
template <typename Float>
double federated_against_pooled(Dtype dtype, const std::vector<std::size_t> &parts) {
  std::mt19937_64 random(3);
  const auto draw = [&] { return static_cast<Float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1); };
  std::size_t total = 0;
  for (const std::size_t part : parts) total += part;
  std::vector<std::vector<Float>> x(total, std::vector<Float>(12));
  std::vector<Float> y(total);
  for (std::size_t row = 0; row < total; ++row) {
    for (Float &value : x[row]) value = draw();
    y[row] = draw();
  }
  std::vector<Float> pooled(12, 0);
  StateDict global{{"w", tensor_of(dtype, {12}, pooled)}};
  for (int round = 0; round < 3; ++round) {
    pooled = gradient_step(pooled, x, y, 0, total);
    Updates updates;
    std::size_t begin = 0;
    for (std::size_t worker = 0; worker < parts.size(); ++worker) {
      const std::vector<Float> w = elements_of<Float>(global.at("w"));
      const std::vector<Float> trained = gradient_step(w, x, y, begin, begin + parts[worker]);
      updates.add(worker, parts[worker], {{"w", tensor_of(dtype, {12}, trained)}});
      begin += parts[worker];
    }
    global = aggregate(specs_of(global), updates.list());
  }
  const std::vector<Float> federated = elements_of<Float>(global.at("w"));
  double largest = 0;
  double moved = 0;
  for (std::size_t k = 0; k < 12; ++k) {
    largest = std::max(largest, std::abs(static_cast<double>(federated[k]) - static_cast<double>(pooled[k])));
    moved = std::max(moved, std::abs(static_cast<double>(pooled[k])));
  }
  REQUIRE(moved > 1e-3);
  return largest;
}

}  // namespace

TEST_CASE("One full-batch step per worker, averaged, is gradient descent on the pooled data") {
  CHECK(federated_against_pooled<double>(Dtype::f64, {200, 200, 200}) < 1e-14);
  CHECK(federated_against_pooled<float>(Dtype::f32, {200, 200, 200}) < 5e-8);
}

TEST_CASE("The same with parts of 1, 37 and 600 examples: the weights matter") {
  CHECK(federated_against_pooled<double>(Dtype::f64, {1, 37, 600}) < 1e-14);
  CHECK(federated_against_pooled<float>(Dtype::f32, {1, 37, 600}) < 5e-8);
}

TEST_CASE("Equal updates average to themselves, bit for bit, in all float dtypes and for any weights") {
  std::mt19937_64 random(1);
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    CAPTURE(dtype_name(dtype));
    const StateDict state{{"x", random_tensor(dtype, kElements, random)}};
    for (const std::vector<std::uint64_t> &weights : {std::vector<std::uint64_t>{1},
                                                      {1, 1, 1},
                                                      {3, 7, 11},
                                                      {2'000'000'011, 1, 1'999'999'973, 6, 12345}}) {
      Updates updates;
      std::uint64_t worker = 1;
      for (const std::uint64_t weight : weights) updates.add(worker++, weight, state);
      CHECK(aggregate(specs_of(state), updates.list()) == state);
    }
  }
}

TEST_CASE("Equal zeros keep their sign; a mean of both zeros is a positive one") {
  const std::vector<float> negative(9, -0.0f);
  Updates updates;
  updates.add(1, 1, {{"x", f32({9}, negative)}}).add(2, 5, {{"x", f32({9}, negative)}});
  CHECK(aggregate({{"x", Dtype::f32, {9}}}, updates.list()).at("x") == f32({9}, negative));
  for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
    for (const std::uint64_t negative_worker : {1, 2}) {
      // 9 elements: a vector unit's part and a rest, which must agree.
      const auto zeros = [&](bool minus) -> StateDict {
        if (dtype == Dtype::f64)
          return {{"x", tensor_of(dtype, {9}, std::vector<double>(9, minus ? -0.0 : 0.0))}};
        return {{"x", tensor_of(dtype, {9}, std::vector<float>(9, minus ? -0.0f : 0.0f))}};
      };
      Updates mixed;
      mixed.add(negative_worker, 1, zeros(true)).add(3 - negative_worker, 1, zeros(false));
      CHECK(aggregate(specs_of(zeros(false)), mixed.list()) == zeros(false));
    }
  }
}

TEST_CASE("Arrival order, thread count and block size leave the bytes as they are") {
  std::mt19937_64 random(2);
  Updates updates;
  for (const std::uint64_t worker : {5, 3, 11, 2, 40, 8, 1})
    updates.add(worker, random() % 1000, random_model(random));
  const std::vector<TensorSpec> specs = specs_of(random_model(random));
  InlineExecutor one;
  const std::vector<std::byte> expected = aggregate_bytes(specs, updates.list(), one);
  std::vector<Update> arrival = updates.list();
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (std::size_t left = arrival.size(); left > 1; --left)
      std::swap(arrival[left - 1], arrival[random() % left]);
    if (aggregate_bytes(specs, arrival, one) != expected) FAIL("arrival order " << repeat);
  }
  for (const unsigned threads : {1u, 2u, 3u, 8u}) {
    for (const std::uint64_t block : {7, 4096, 100'000}) {
      ThreadExecutor executor(threads);
      if (aggregate_bytes(specs, arrival, executor, block) != expected)
        FAIL(threads << " threads, blocks of " << block);
    }
  }
  CHECK(aggregate_bytes(specs, arrival, one, 1) == expected);
}

TEST_CASE("The result is the sum of n times x in worker-id order, divided once and rounded once") {
  std::mt19937_64 random(4);
  Updates updates;
  std::vector<std::pair<std::uint64_t, StateDict>> in_order;
  for (std::uint64_t worker = 0; worker < 9; ++worker) {
    in_order.emplace_back(1 + random() % 5000, random_model(random));
    updates.add(worker, in_order.back().first, in_order.back().second);
  }
  const StateDict result = aggregate(specs_of(in_order[0].second), updates.list());
  std::uint64_t total = 0;
  for (const auto &[weight, state] : in_order) total += weight;
  const std::vector<float> mean = elements_of<float>(result.at("a"));
  const std::vector<double> wide_mean = elements_of<double>(result.at("b"));
  const auto expected = [&]<typename Float>(const std::string &name, std::size_t index, Float) {
    double sum = 0;
    for (const auto &[weight, state] : in_order) {
      Float element = 0;
      std::memcpy(&element, state.at(name).data.data() + index * sizeof element, sizeof element);
      sum += static_cast<double>(weight) * static_cast<double>(element);
    }
    return static_cast<Float>(sum / static_cast<double>(total));
  };
  for (std::size_t index = 0; index < mean.size(); ++index) {
    if (mean[index] != expected("a", index, float{})) FAIL("F32 element " << index);
  }
  for (std::size_t index = 0; index < wide_mean.size(); ++index) {
    if (wide_mean[index] != expected("b", index, double{})) FAIL("F64 element " << index);
  }
  CHECK(mean.size() == 5000);
}

TEST_CASE("A worker split into two with the same weights changes nothing beyond one unit in the last place") {
  std::mt19937_64 random(6);
  const StateDict other{{"x", random_tensor(Dtype::f32, kElements, random)}};
  const StateDict split{{"x", random_tensor(Dtype::f32, kElements, random)}};
  Updates whole;
  whole.add(1, 123, other).add(2, 1000, split);
  Updates parts;
  parts.add(1, 123, other).add(2, 337, split).add(3, 663, split);
  const std::vector<TensorSpec> specs = specs_of(other);
  const std::vector<float> a = elements_of<float>(aggregate(specs, whole.list()).at("x"));
  const std::vector<float> b = elements_of<float>(aggregate(specs, parts.list()).at("x"));
  std::uint64_t largest = 0;
  for (std::size_t index = 0; index < a.size(); ++index) {
    largest = std::max(largest, units_apart<float, std::uint32_t>(a[index], b[index]));
  }
  CHECK(largest <= 1);
  CHECK(a.size() == kElements);
}

TEST_CASE("No mean lies outside the values that it is the mean of") {
  std::mt19937_64 random(7);
  Updates updates;
  std::vector<std::vector<double>> values;
  for (std::uint64_t worker = 0; worker < 5; ++worker) {
    // Two values that lie one unit apart: the sum's rounding error is larger than that.
    std::vector<double> one(kElements);
    for (std::size_t index = 0; index < kElements; ++index) {
      one[index] = 1.5 + static_cast<double>(index) * 0x1p-40 + static_cast<double>(random() % 2) * 0x1p-52;
    }
    values.push_back(one);
    updates.add(worker, 1 + random() % 7, {{"x", tensor_of(Dtype::f64, {kElements}, one)}});
  }
  const std::vector<double> mean =
      elements_of<double>(aggregate({{"x", Dtype::f64, {kElements}}}, updates.list()).at("x"));
  for (std::size_t index = 0; index < kElements; ++index) {
    double low = values[0][index];
    double high = low;
    for (const std::vector<double> &one : values) {
      low = std::min(low, one[index]);
      high = std::max(high, one[index]);
    }
    if (mean[index] < low || mean[index] > high) FAIL("element " << index);
  }
  CHECK(mean.size() == kElements);
}
