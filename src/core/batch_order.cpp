#include <algorithm>
#include <numeric>
#include <string>

#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {

namespace {

/// Keeps this stream apart from others that are derived from a job's seed: "order" in ASCII.
constexpr std::uint64_t kOrderStream = 0x6f72646572;
constexpr std::uint64_t kNoEpoch = UINT64_MAX;

}  // namespace

BatchOrder::BatchOrder(std::uint64_t num_examples, std::uint32_t batch_size, std::uint64_t seed, Id worker_id)
    : num_examples_(num_examples),
      batch_examples_(std::min<std::uint64_t>(batch_size, num_examples)),
      seed_(seed),
      worker_id_(worker_id),
      epoch_number_(kNoEpoch) {
  if (num_examples == 0)
    throw Error(ErrorCode::invalid_argument,
                "The partition has no examples, so there is nothing to train on.");
  if (batch_size == 0)
    throw Error(ErrorCode::invalid_argument, "config.batch_size is 0; it must be at least 1.");
  batch_.reserve(static_cast<std::size_t>(batch_examples_));
}

const std::vector<std::uint64_t> &BatchOrder::epoch(std::uint64_t number) {
  if (number == epoch_number_) return epoch_order_;
  epoch_order_.resize(static_cast<std::size_t>(num_examples_));
  std::iota(epoch_order_.begin(), epoch_order_.end(), std::uint64_t{0});
  core::Random random(core::derive_seed({seed_, kOrderStream, worker_id_, number}));
  random.shuffle(epoch_order_);
  epoch_number_ = number;
  return epoch_order_;
}

const std::vector<std::uint64_t> &BatchOrder::batch(std::uint64_t step) {
  if (step > UINT64_MAX / batch_examples_ - 1)
    throw Error(
        ErrorCode::invalid_argument,
        "Step " + std::to_string(step) + " lies beyond the 2^64 examples that a job can pass through.");
  batch_.clear();
  std::uint64_t position = step * batch_examples_;
  while (batch_.size() < batch_examples_) {
    const auto &order = epoch(position / num_examples_);
    const std::uint64_t first = position % num_examples_;
    const std::uint64_t count = std::min(batch_examples_ - batch_.size(), num_examples_ - first);
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    batch_.insert(batch_.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    position += count;
  }
  return batch_;
}

}  // namespace parsyn
