#include <algorithm>
#include <cmath>
#include <string>

#include "core/partition_request.hpp"
#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "parsyn/partitioner.hpp"

namespace parsyn {

ValidationIndices validation_indices(std::uint64_t num_examples, double fraction, std::uint64_t seed) {
  // Negated, so that NaN is refused too.
  if (!(fraction > 0.0 && fraction < 1.0)) {
    throw Error(ErrorCode::invalid_argument, "the validation fraction is " + core::number_text(fraction) +
                                                 "; it must be greater than 0 and less than 1");
  }
  if (num_examples < 2) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(num_examples) +
                    " examples cannot be split into training and validation; at least 2 "
                    "are needed");
  }
  std::vector<std::uint64_t> order = core::all_indices(num_examples);
  core::Random random(core::derive_seed({seed, static_cast<std::uint64_t>(core::SeedPurpose::validation)}));
  random.shuffle(order);

  const auto rounded = static_cast<std::uint64_t>(std::round(static_cast<double>(num_examples) * fraction));
  const auto border =
      order.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::uint64_t>(rounded, 1, num_examples - 1));
  ValidationIndices split{std::vector<std::uint64_t>(border, order.end()),
                          std::vector<std::uint64_t>(order.begin(), border)};
  std::sort(split.training.begin(), split.training.end());
  std::sort(split.validation.begin(), split.validation.end());
  return split;
}

}  // namespace parsyn
