// The worker's life: from its options to its last log line.
#pragma once

#include "worker/options.hpp"

namespace parsyn::programs {

/// Runs until a signal or the coordinator ends it. Returns the exit code. Throws Error for options that do
/// not hold.
int work(const WorkerProgramOptions &options);

}  // namespace parsyn::programs
