// A worker on a machine of choice: what Worker's constructor makes on the real one, and tests on a simulated
// one.
#pragma once

#include <memory>

#include "parsyn/worker.hpp"
#include "system/runtime.hpp"

namespace parsyn::worker {

/// As Worker's constructor. The runtime outlives the worker.
std::unique_ptr<Worker> make_worker(WorkerOptions options, system::Runtime &runtime);

}  // namespace parsyn::worker
