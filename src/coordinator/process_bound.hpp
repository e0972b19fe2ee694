// A coordinator in the child of a fork().
#pragma once

#include <memory>

#include "parsyn/coordinator.hpp"

namespace parsyn::coordinator {

/// The same coordinator in this process. In a child of it every call throws Error(unsupported) at once,
/// before it takes a lock, but stop(), which does nothing; and its destruction leaves everything as it lies.
std::unique_ptr<Coordinator> bind_to_process(std::unique_ptr<Coordinator> coordinator);

}  // namespace parsyn::coordinator
