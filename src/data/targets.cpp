#include "data/targets.hpp"

#include <utility>

#include "data/elements.hpp"

namespace parsyn::data {

void TargetCollector::add_integer(std::int64_t value) {
  ++count_;
  append_element(numbers_, static_cast<float>(value));
  if (all_integers_) integers_.push_back(value);
}

void TargetCollector::add_number(float value) {
  ++count_;
  append_element(numbers_, value);
  all_integers_ = false;
  integers_ = {};
}

Tensor TargetCollector::finish() {
  if (!all_integers_) return {Dtype::f32, {count_}, std::move(numbers_)};
  Tensor labels{Dtype::i64, {count_}, {}};
  labels.data.reserve(integers_.size() * 8);
  for (const std::int64_t value : integers_) append_element(labels.data, value);
  return labels;
}

}  // namespace parsyn::data
