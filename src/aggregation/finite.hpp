// Are all elements finite numbers? A NaN or an infinity that enters a sum cannot be removed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "parsyn/state_dict.hpp"

namespace parsyn::aggregation {

/// The index of the first element that is NaN or infinite; nothing when all are finite, or for a dtype that
/// is not averaged. `bytes` must be aligned for the dtype and hold whole elements.
std::optional<std::uint64_t> first_not_finite(Dtype dtype, std::span<const std::byte> bytes);

}  // namespace parsyn::aggregation
