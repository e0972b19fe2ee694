// Settings of libtorch that belong to the whole process, borrowed for one computation.
//
// A host may use libtorch itself, and several trainers may run in one process. So: the number of threads is
// set for the time of a computation and the host's is put back after it; trainers that want the same number
// run side by side, and one that wants another waits its turn, because the maths library below takes one
// number for all threads. A model that draws random numbers (dropout) has libtorch's generators to itself,
// seeded, and their state is put back.
//
// A child of fork() has none of the threads of the maths library, which would be waited for without end:
// where the parent has computed, computing in the child is refused.
//
// Thread-safety: scopes are made and destroyed on one thread; any number of threads may do so at once.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "parsyn/log.hpp"

namespace parsyn::torch {

/// Asked while a scope waits for its turn: true makes its constructor throw Error(cancelled). Empty: never.
using CancelQuery = std::function<bool()>;

struct ComputeSettings {
  int threads = 1;
  at::Device device = at::Device(at::kCPU);
  LogSink log;  ///< Takes libtorch's own warnings of this thread, which otherwise go to the standard error
                ///< stream.
};

/// Throws Error(unsupported) in a child of fork() whose parent has computed.
void check_not_forked();

class ComputeScope {
 public:
  /// Throws as check_not_forked(), too.
  explicit ComputeScope(ComputeSettings settings, const CancelQuery &cancelled = {});
  ~ComputeScope();
  ComputeScope(const ComputeScope &) = delete;
  ComputeScope &operator=(const ComputeScope &) = delete;

 private:
  class WarningLog;
  std::unique_ptr<WarningLog> warnings_;
};

/// The generators of the CPU and of `device` draw from `seed`. Made inside a ComputeScope.
class RandomScope {
 public:
  RandomScope(std::uint64_t seed, at::Device device, const CancelQuery &cancelled = {});
  ~RandomScope();
  RandomScope(const RandomScope &) = delete;
  RandomScope &operator=(const RandomScope &) = delete;

 private:
  struct Borrowed {
    at::Generator generator;
    at::Tensor former_state;
  };
  std::unique_lock<std::timed_mutex> lock_;
  std::vector<Borrowed> generators_;
};

}  // namespace parsyn::torch
