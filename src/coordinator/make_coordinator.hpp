// A coordinator on a machine of choice: what make_coordinator of the contract does on the real one, and tests
// on a simulated one.
#pragma once

#include <memory>

#include "parsyn/coordinator.hpp"
#include "system/runtime.hpp"

namespace parsyn::coordinator {

/// `options` are valid. The runtime outlives the coordinator.
std::unique_ptr<Coordinator> make_coordinator(const CoordinatorOptions &options, system::Runtime &runtime);

}  // namespace parsyn::coordinator
