#include "aggregation/block_reducer.hpp"

#include <Eigen/Core>
#include <utility>

#include "aggregation/finite.hpp"
#include "tensor/half.hpp"

namespace parsyn::aggregation {
namespace {

/// The elements of a buffer. operator new aligns it for every type used here.
template <typename Element>
using Elements = Eigen::Map<Eigen::Array<Element, Eigen::Dynamic, 1>>;

template <typename Element>
Elements<Element> elements_of(const std::unique_ptr<std::byte[]> &buffer, std::uint64_t count) {
  return {reinterpret_cast<Element *>(buffer.get()), static_cast<Eigen::Index>(count)};
}

Elements<double> elements_of(const std::unique_ptr<double[]> &buffer, std::uint64_t count) {
  return {buffer.get(), static_cast<Eigen::Index>(count)};
}

/// Calls `act` with a value of the type that holds an integral element. Two's complement decides signed
/// comparisons.
template <typename Act>
void with_integral_type(Dtype dtype, Act act) {
  switch (dtype) {
    case Dtype::i64:
      return act(std::int64_t{});
    case Dtype::i32:
      return act(std::int32_t{});
    case Dtype::i16:
      return act(std::int16_t{});
    case Dtype::i8:
      return act(std::int8_t{});
    case Dtype::u64:
      return act(std::uint64_t{});
    case Dtype::u32:
      return act(std::uint32_t{});
    case Dtype::u16:
      return act(std::uint16_t{});
    default:
      return act(std::uint8_t{});  // U8, and BOOL, where true is 1
  }
}

double widened_f16(std::uint16_t bits) { return static_cast<double>(tensor::f32_from_f16(bits)); }
double widened_bf16(std::uint16_t bits) { return static_cast<double>(tensor::f32_from_bf16(bits)); }

}  // namespace

BlockReducer::BlockReducer(std::uint64_t elements_max)
    : elements_max_(elements_max),
      input_(std::make_unique_for_overwrite<std::byte[]>(elements_max * sizeof(double))),
      kept_(std::make_unique_for_overwrite<std::byte[]>(elements_max * sizeof(double))) {}

void BlockReducer::begin(Dtype dtype, std::uint64_t elements) {
  dtype_ = dtype;
  elements_ = elements;
  first_ = true;
  // -0 is what adding starts from: -0 + x is x for every x, whereas 0 + -0 is 0 and would lose a sign.
  if (is_averaged(dtype)) elements_of<double>(kept_, elements).setConstant(-0.0);
  if (dtype == Dtype::f64 && smallest_ == nullptr) {
    smallest_ = std::make_unique_for_overwrite<double[]>(elements_max_);
    largest_ = std::make_unique_for_overwrite<double[]>(elements_max_);
  }
}

std::span<std::byte> BlockReducer::input() {
  return {input_.get(), static_cast<std::size_t>(elements_ * dtype_bits(dtype_) / 8)};
}

void BlockReducer::add(std::uint64_t num_examples) {
  const bool first = std::exchange(first_, false);
  const double weight = static_cast<double>(num_examples);
  Elements<double> sum = elements_of<double>(kept_, is_averaged(dtype_) ? elements_ : 0);
  switch (dtype_) {
    case Dtype::f64: {
      const Elements<double> given = elements_of<double>(input_, elements_);
      sum += weight * given;
      Elements<double> smallest = elements_of(smallest_, elements_);
      Elements<double> largest = elements_of(largest_, elements_);
      if (first) {
        smallest = given;
        largest = given;
      } else {
        // Not min() and max(): which zero those return for 0 and -0 depends on the vector unit.
        smallest = (given < smallest).select(given, smallest);
        largest = (given > largest).select(given, largest);
      }
      return;
    }
    case Dtype::f32:
      sum += weight * elements_of<float>(input_, elements_).cast<double>();
      return;
    case Dtype::f16:
      sum += weight * elements_of<std::uint16_t>(input_, elements_).unaryExpr(&widened_f16);
      return;
    case Dtype::bf16:
      sum += weight * elements_of<std::uint16_t>(input_, elements_).unaryExpr(&widened_bf16);
      return;
    default:
      break;
  }
  with_integral_type(dtype_, [&](auto type) {
    const auto given = elements_of<decltype(type)>(input_, elements_);
    auto largest = elements_of<decltype(type)>(kept_, elements_);
    if (first) {
      largest = given;
    } else {
      largest = largest.max(given);
    }
  });
}

std::span<const std::byte> BlockReducer::finish(std::uint64_t total) {
  const std::span<const std::byte> result = input();
  if (is_integral(dtype_)) return {kept_.get(), result.size()};
  const double divisor = static_cast<double>(total);
  const Elements<double> sum = elements_of<double>(kept_, elements_);
  switch (dtype_) {
    case Dtype::f64: {
      Elements<double> mean = elements_of<double>(input_, elements_);
      mean = sum / divisor;
      // Where the stored type is no wider than the sum, the sum's rounding can carry the mean of equal values
      // off by a unit ((x + x + x) / 3 misses x for a quarter of all x). No mean lies outside its values. An
      // overflow stays visible: it is no mean at all.
      if (!first_not_finite(Dtype::f64, result)) {
        const Elements<double> smallest = elements_of(smallest_, elements_);
        const Elements<double> largest = elements_of(largest_, elements_);
        mean = (mean < smallest).select(smallest, mean);
        mean = (mean > largest).select(largest, mean);
      }
      break;
    }
    case Dtype::f32:
      elements_of<float>(input_, elements_) = (sum / divisor).cast<float>();
      break;
    case Dtype::f16:
      elements_of<std::uint16_t>(input_, elements_) = (sum / divisor).unaryExpr(&tensor::f16_from_f64);
      break;
    default:
      elements_of<std::uint16_t>(input_, elements_) = (sum / divisor).unaryExpr(&tensor::bf16_from_f64);
      break;
  }
  return result;
}

}  // namespace parsyn::aggregation
