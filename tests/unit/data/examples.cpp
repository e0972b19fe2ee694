#include "parsyn/dataset.hpp"

#include "parsyn/partitioner.hpp"
#include "support/catch.hpp"
#include "unit/data/files.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

Tensor labels_tensor(const Labels &labels) {
  Tensor tensor{Dtype::i64, {labels.size()}, {}};
  for (const std::int64_t label : labels) {
    for (int i = 0; i < 8; ++i)
      tensor.data.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(label) >> (8 * i)));
  }
  return tensor;
}

Examples four_examples() {
  return {make_f32_tensor({4, 1, 2}, {0, 1, 10, 11, 20, 21, 30, 31}), labels_tensor({5, -3, 7, 0})};
}

}  // namespace

TEST_CASE("select gives these examples in this order") {
  const Examples selected = four_examples().select(std::vector<std::uint64_t>{2, 0, 2});
  CHECK(selected.x.shape == Shape{3, 1, 2});
  CHECK(f32_elements(selected.x) == Floats{20, 21, 0, 1, 20, 21});
  CHECK(i64_elements(selected.y) == Labels{7, 5, 7});
  CHECK(four_examples().select({}).count() == 0);
}

TEST_CASE("an index that is not there is refused") {
  const Error error = error_of([] { four_examples().select(std::vector<std::uint64_t>{0, 4}); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(mentions(error, "example 4"));
}

TEST_CASE("examples become a state dict of x and y, and come back") {
  const Examples examples = four_examples();
  const Examples back = Examples::from_state_dict(examples.to_state_dict());
  CHECK(back.x == examples.x);
  CHECK(back.y == examples.y);
  CHECK(examples.input_shape() == Shape{1, 2});
}

TEST_CASE("a state dict that is no dataset is refused, with what is wrong") {
  const auto refused = [](StateDict state) {
    const Error error = error_of([&] { Examples::from_state_dict(std::move(state)); });
    CHECK(error.code() == ErrorCode::corrupt_data);
    return error.message();
  };
  const Examples good = four_examples();
  const auto has = [](const std::string &message, const char *text) {
    return message.find(text) != std::string::npos;
  };
  CHECK(has(refused({{"x", good.x}}), "no tensor \"y\""));
  CHECK(has(refused({{"y", good.y}}), "no tensor \"x\""));
  CHECK(has(refused({{"x", good.x}, {"y", good.y}, {"z", good.y}}), "\"z\""));
  CHECK(has(refused({{"x", good.x}, {"y", labels_tensor({1, 2})}}), "x holds 4 examples, but y holds 2"));
  CHECK(has(refused({{"x", make_f32_tensor({}, {1})}, {"y", good.y}}), "scalar"));
  Tensor cut = good.x;
  cut.data.pop_back();
  CHECK(has(refused({{"x", cut}, {"y", good.y}}), "needs 32 bytes, but has 31"));
}

TEST_CASE("the shape of a dataset says what its elements are, and which labels occur") {
  const DatasetShape shape = shape_of(four_examples());
  CHECK(shape == DatasetShape{4, Dtype::f32, {1, 2}, Dtype::i64, {}, -3, 7});
  const Examples regression{four_examples().x, make_f32_tensor({4, 3}, Floats(12, 0.5f))};
  CHECK(shape_of(regression) == DatasetShape{4, Dtype::f32, {1, 2}, Dtype::f32, {3}, 0, 0});
}

TEST_CASE("class labels come out of examples that have them") {
  CHECK(class_labels(four_examples()) == Labels{5, -3, 7, 0});
  const Examples regression{four_examples().x, make_f32_tensor({4}, Floats(4, 0.5f))};
  CHECK(error_of([&] { class_labels(regression); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a validation split takes every example once and keeps the file's order in both parts") {
  Floats inputs;
  Labels labels;
  for (int i = 0; i < 20; ++i) {
    inputs.push_back(static_cast<float>(i));
    labels.push_back(i);
  }
  const SplitExamples split =
      split_validation({make_f32_tensor({20, 1}, inputs), labels_tensor(labels)}, 0.25, 42);
  CHECK(class_labels(split.validation) == Labels{3, 8, 12, 13, 18});
  CHECK(f32_elements(split.validation.x) == Floats{3, 8, 12, 13, 18});
  CHECK(class_labels(split.training) == Labels{0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 14, 15, 16, 17, 19});
  CHECK(error_of([] { split_validation(four_examples(), 1.0, 1); }).code() == ErrorCode::invalid_argument);
}
