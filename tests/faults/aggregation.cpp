// Public failure reports about aggregation arithmetic, as far as the aggregator and the validation of updates
// show them.
#include <limits>
#include <random>

#include "parsyn/aggregator.hpp"
#include "support/catch.hpp"
#include "support/updates.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// What a round does: refused updates are left out, the others are averaged.
StateDict average_of_accepted(const std::vector<TensorSpec> &specs, const Updates &updates) {
  InlineExecutor executor;
  std::vector<Update> accepted;
  for (const Update &update : updates.list()) {
    if (why_update_is_refused(*update.source, specs, executor).empty()) accepted.push_back(update);
  }
  return aggregate(specs, accepted);
}

const std::vector<TensorSpec> kSpecs = specs_of(constant_model(0));

float mean_of_constants(const Updates &updates) {
  const StateDict result = aggregate(kSpecs, updates.list());
  const std::vector<float> elements = f32_elements(result.at("w"));
  REQUIRE(elements == std::vector<float>(8, elements[0]));
  return elements[0];
}

std::vector<std::uint16_t> random_bf16(std::size_t count) {
  std::mt19937_64 random(16);
  std::vector<std::uint16_t> elements(count);
  // Exponents around 0, any sign and fraction.
  for (std::uint16_t &element : elements) {
    element = static_cast<std::uint16_t>((random() & 0x807F) | (117 + random() % 20) << 7);
  }
  return elements;
}

}  // namespace

TEST_CASE("fault 1: reports of weight zero alone are an error that says so, and write nothing") {
  Updates updates;
  updates.add(1, 0, {{"w", f32({2}, {2, -2})}}).add(2, 0, {{"w", f32({2}, {6, 10})}});
  InlineExecutor executor;
  MemorySink sink;
  const auto error = thrown_by([&] {
    FedAvgAggregator().aggregate({{"w", Dtype::f32, {2}}}, updates.list(), executor, sink);
  });
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::invalid_argument);
  CHECK(contains(error->message(), "total weight 0"));
  CHECK(sink.bytes().empty());
}

TEST_CASE("fault 3: one bad element refuses its update by tensor and index, and the rest is averaged") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> elements(8, 1.0f);
    elements[5] = bad;
    const std::vector<std::byte> file = file_of({{"w", f32({8}, elements)}});
    const std::string reason = refusal(file, kSpecs);
    CHECK(contains(reason, "\"w\""));
    CHECK(contains(reason, "index 5"));
    Updates updates;
    updates.add(1, 100, constant_model(1)).add_file(2, 100, file);
    CHECK(average_of_accepted(kSpecs, updates) == constant_model(1));
    // Let through all the same, it ends in an error, not in a model.
    const auto error = thrown_by([&] { aggregate(kSpecs, updates.list()); });
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::corrupt_data);
  }
}

TEST_CASE("fault 4: the mean is weighted by examples") {
  Updates updates;
  updates.add(1, 1, constant_model(2)).add(2, 3, constant_model(6));
  CHECK(mean_of_constants(updates) == 5.0f);
}

TEST_CASE("fault 5: the divisor is the weight of those who reported") {
  Updates updates;
  updates.add(1, 1, constant_model(1)).add(3, 1, constant_model(3));
  CHECK(mean_of_constants(updates) == 2.0f);
}

TEST_CASE("fault 8: nothing of one aggregation is left for the next") {
  const FedAvgAggregator aggregator;
  InlineExecutor executor;
  StateDict global = constant_model(0);
  for (const float expected : {1.0f, 2.0f, 3.0f}) {
    const float next = f32_elements(global.at("w"))[0] + 1;
    Updates updates;
    updates.add(1, 10, constant_model(next)).add(2, 20, constant_model(next));
    MemorySink sink;
    aggregator.aggregate(kSpecs, updates.list(), executor, sink);
    global = read_safetensors(MemorySource(sink.bytes()));
    CHECK(global == constant_model(expected));
  }
}

TEST_CASE("fault 11: missing and additional tensors are refused by name, none is dropped") {
  const StateDict a{{"w", f32({2}, {1, 2})}, {"b", f32({1}, {3})}};
  StateDict b = a;
  b.erase("b");
  StateDict c = a;
  c["x"] = f32({1}, {4});
  const std::vector<TensorSpec> specs = specs_of(a);
  CHECK(refusal(file_of(a), specs).empty());
  CHECK(contains(refusal(file_of(b), specs), "\"b\" is missing"));
  CHECK(contains(refusal(file_of(c), specs), "\"x\" is unexpected"));
  Updates updates;
  updates.add(1, 1, a).add(2, 1, b).add(3, 1, c);
  CHECK(average_of_accepted(specs, updates) == a);
}

TEST_CASE("fault 12: only exactly the same shape fits, and the message has both") {
  const std::vector<TensorSpec> specs{{"w", Dtype::f32, {2, 3}}};
  for (const std::vector<std::uint64_t> &shape : {std::vector<std::uint64_t>{3, 2}, {6}, {1, 3}, {2, 3, 1}}) {
    const std::uint64_t count = TensorSpec{"w", Dtype::f32, shape}.element_count();
    const std::vector<std::byte> file = file_of({{"w", f32(shape, std::vector<float>(count, 1.0f))}});
    const std::string reason = refusal(file, specs);
    CHECK(contains(reason, shape_text(shape)));
    CHECK(contains(reason, "[2, 3]"));
    Updates updates;
    updates.add_file(1, 1, file);
    const auto error = thrown_by([&] { aggregate(specs, updates.list()); });
    REQUIRE(error.has_value());
    CHECK(error->code() == ErrorCode::corrupt_data);
  }
}

TEST_CASE("fault 13: integer counters stay integers, and the largest is kept") {
  const auto counter = [](std::int64_t value) -> StateDict {
    return {{"num_batches_tracked", tensor_of<std::int64_t>(Dtype::i64, {}, {value})}};
  };
  Updates updates;
  updates.add(1, 1, counter(5)).add(2, 3, counter(7));
  CHECK(aggregate(specs_of(counter(0)), updates.list()) == counter(7));
}

TEST_CASE("fault 15: buffers are averaged like parameters, variances plainly, and none is left out") {
  const auto buffers = [](float mean, float variance) -> StateDict {
    return {{"running_mean", f32({1}, {mean})}, {"running_var", f32({1}, {variance})}};
  };
  Updates updates;
  updates.add(1, 1, buffers(0, 1)).add(2, 3, buffers(10, 1));
  CHECK(aggregate(specs_of(buffers(0, 0)), updates.list()) == buffers(7.5f, 1.0f));
}

TEST_CASE("fault 16: 512 BF16 reports of 1 average to 1, and equal ones to themselves") {
  const auto ones = [] { return StateDict{{"w", tensor_of<std::uint16_t>(Dtype::bf16, {1}, {0x3F80})}}; };
  Updates many;
  for (std::uint64_t worker = 0; worker < 512; ++worker) many.add(worker, 1, ones());
  CHECK(aggregate(specs_of(ones()), many.list()) == ones());

  const StateDict equal{{"w", tensor_of(Dtype::bf16, {10'000}, random_bf16(10'000))}};
  Updates three;
  three.add(1, 1, equal).add(2, 1, equal).add(3, 1, equal);
  CHECK(aggregate(specs_of(equal), three.list()) == equal);
}

TEST_CASE("fault 19: three equal models average to themselves, in whatever order they arrive") {
  std::mt19937_64 random(19);
  std::vector<float> elements(10'000);
  for (float &element : elements)
    element = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
  const StateDict equal{{"w", f32({10'000}, elements)}};
  Updates updates;
  updates.add(3, 1, equal).add(1, 1, equal).add(2, 1, equal);
  CHECK(aggregate(specs_of(equal), updates.list()) == equal);

  // Unequal ones: 0.1 + 0.2 + 0.3 depends on the order of addition, the average on worker ids only.
  Updates forward;
  forward.add(1, 1, {{"w", tensor_of<double>(Dtype::f64, {1}, {0.1})}});
  forward.add(2, 1, {{"w", tensor_of<double>(Dtype::f64, {1}, {0.2})}});
  forward.add(3, 1, {{"w", tensor_of<double>(Dtype::f64, {1}, {0.3})}});
  const std::vector<TensorSpec> specs{{"w", Dtype::f64, {1}}};
  std::vector<Update> backward(forward.list().rbegin(), forward.list().rend());
  CHECK(aggregate(specs, backward) == aggregate(specs, forward.list()));
}

TEST_CASE("fault 20 (i): counts of more than 31 bits together do not wrap") {
  Updates updates;
  updates.add(1, 1'500'000'000, constant_model(1)).add(2, 1'500'000'000, constant_model(3));
  CHECK(mean_of_constants(updates) == 2.0f);
}

TEST_CASE("fault 23: another dtype is refused with both names, never reinterpreted") {
  const StateDict half{{"w", tensor_of(Dtype::bf16, {8}, std::vector<std::uint16_t>(8, 0x3FC0))}};
  const std::string reason = refusal(file_of(half), kSpecs);
  CHECK(contains(reason, "BF16"));
  CHECK(contains(reason, "F32"));
  Updates updates;
  updates.add(1, 1, constant_model(0.5f)).add(2, 1, half);
  CHECK(average_of_accepted(kSpecs, updates) == constant_model(0.5f));
  const auto error = thrown_by([&] { aggregate(kSpecs, updates.list()); });
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::corrupt_data);
}

TEST_CASE("fault 24: half of an update counts as nothing") {
  std::vector<std::byte> half = file_of(constant_model(9));
  half.resize(half.size() / 2);
  CHECK_FALSE(refusal(half, kSpecs).empty());
  Updates updates;
  updates.add(1, 1, constant_model(4)).add_file(2, 1, half);
  CHECK(average_of_accepted(kSpecs, updates) == constant_model(4));

  // Also when the header is complete and only elements are missing.
  std::vector<std::byte> cut = file_of(constant_model(9));
  cut.resize(cut.size() - 1);
  CHECK_FALSE(refusal(cut, kSpecs).empty());
}
