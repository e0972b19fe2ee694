// The reduction of one block of one tensor over all updates: the only code of parsyn that adds weights.
//
// Floating elements: the float64 sum of n * x in the order of add() calls, divided once by the total and
// rounded once. Integral elements: the maximum, compared as integers. Each element is treated by itself, so
// where a block begins or ends has no influence.
//
// Thread-safety: one thread at a time; distinct reducers are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "parsyn/state_dict.hpp"

namespace parsyn::aggregation {

class BlockReducer {
 public:
  /// For blocks of at most this many elements. Holds 16 bytes per element, and 16 more from the first F64
  /// block on.
  explicit BlockReducer(std::uint64_t elements_max);

  /// Starts a block. `dtype` is averaged or integral.
  void begin(Dtype dtype, std::uint64_t elements);
  /// Where the next update's elements go before add().
  std::span<std::byte> input();
  /// Takes input() in, with this weight: at least 1, at most 2^53.
  void add(std::uint64_t num_examples);
  /// The block's result, valid until the next begin(). `total` is the sum of all weights, at most 2^53. A
  /// float64 sum that overflowed comes out as an infinity or NaN.
  std::span<const std::byte> finish(std::uint64_t total);

 private:
  Dtype dtype_ = Dtype::f32;
  std::uint64_t elements_ = 0;
  std::uint64_t elements_max_;
  bool first_ = true;
  std::unique_ptr<std::byte[]> input_;  // elements as stored; the result in the end
  std::unique_ptr<std::byte[]> kept_;   // float64 sums, or the maxima so far
  std::unique_ptr<double[]> smallest_;  // F64 only
  std::unique_ptr<double[]> largest_;
};

}  // namespace parsyn::aggregation
