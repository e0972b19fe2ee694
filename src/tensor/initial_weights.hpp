// Internal: what the library itself asks about a model that has a documented initialisation, beside
// parsyn::initial_weights (parsyn/trainer.hpp).
//
// Thread-safety: free functions without state.
#pragma once

#include <cstdint>

#include "parsyn/bytes.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn::tensor {

/// How many parameters initial_weights() would draw, from the sizes alone; it throws what that throws.
std::uint64_t initial_parameter_count(const ModelDescription &model);

/// parsyn::initial_weights; throws Error(cancelled) once `cancelled` says so, which is asked now and then.
StateDict initial_weights(const ModelDescription &model, std::uint64_t seed, const CancelQuery &cancelled);

}  // namespace parsyn::tensor
