// FedAvg over stored updates: sum(n_k * x_k) / sum(n_k), block by block (McMahan et al. 2017, arXiv
// 1602.05629).
//
// For one block of one tensor the same elements are read from every update, in worker-id order, accumulated
// in float64 with integer n, divided once and rounded once to the stored dtype. So the result does not depend
// on the order in which updates arrived, on the number of threads, or on the block size, and memory is blocks
// x workers. Integer and boolean tensors never pass through floating point: equal on all workers gives that
// value, else the maximum. A float64 mean is kept within its values, as rounding the sum can carry it out.
// BatchNorm's running_mean and running_var are averaged like any other floating tensor (not pooled).
//
// Thread-safety: const and stateless; one object may aggregate several jobs at once.
// Lifetime: sources, sink and executor are borrowed for the call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parsyn/bytes.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/safetensors.hpp"

namespace parsyn {

/// Runs pieces of work, perhaps on several threads. The pure layers own no threads: they are given one of
/// these.
class Executor {
 public:
  virtual ~Executor() = default;
  /// How many pieces may run at once, at least 1.
  virtual unsigned concurrency() const = 0;
  /// Calls piece(0) ... piece(count - 1), each once, in any order; returns when all have ended. Rethrows the
  /// exception of the lowest index that threw.
  virtual void run(std::size_t count, const std::function<void(std::size_t)> &piece) = 0;
};

/// Runs every piece on the calling thread.
class InlineExecutor final : public Executor {
 public:
  unsigned concurrency() const override { return 1; }
  void run(std::size_t count, const std::function<void(std::size_t)> &piece) override {
    for (std::size_t index = 0; index < count; ++index) piece(index);
  }
};

/// One worker's stored update. `num_examples` is its weight.
struct Update {
  std::uint64_t worker_id = 0;
  std::uint64_t num_examples = 0;
  const ByteSource *source = nullptr;  ///< A safetensors file.
};

struct ValidationLimits {
  SafetensorsLimits header{.header_bytes_max = limits::kPeerHeaderBytesMax};
};

/// Checks a whole update before any of it counts: a well-formed file with exactly the names, shapes and
/// dtypes of `expected`, and finite values only. Returns an empty string, or the sentence that refuses it (it
/// names the tensor, both shapes or dtypes, or the index of the first element that is not finite). Throws
/// what the source throws when it cannot be read (io, unavailable, ...): that says nothing about the update.
std::string why_update_is_refused(const ByteSource &update, const std::vector<TensorSpec> &expected,
                                  Executor &executor, const ValidationLimits &limits = {});

class Aggregator {
 public:
  virtual ~Aggregator() = default;

  /// Writes the new global model, a safetensors file laid out by layout_safetensors(specs, metadata), to
  /// `out`. `specs` are the global model's tensors; `updates` must have passed why_update_is_refused against
  /// them. Updates of zero examples add nothing. Throws Error: invalid_argument (no updates, a worker twice,
  /// total weight 0, a dtype that cannot be aggregated), corrupt_data (an update that does not fit, a result
  /// that is not finite), and what sources and sink throw (io, unavailable, ...), with its own code.
  virtual void aggregate(const std::vector<TensorSpec> &specs, std::vector<Update> updates,
                         Executor &executor, ByteSink &out,
                         const std::map<std::string, std::string> &metadata) const = 0;
};

class FedAvgAggregator final : public Aggregator {
 public:
  struct Options {
    std::uint64_t block_elements = limits::kBlockElements;  ///< No influence on the result.
  };
  FedAvgAggregator() = default;
  explicit FedAvgAggregator(const Options &options) : options_(options) {}

  void aggregate(const std::vector<TensorSpec> &specs, std::vector<Update> updates, Executor &executor,
                 ByteSink &out, const std::map<std::string, std::string> &metadata = {}) const override;

 private:
  Options options_;
};

}  // namespace parsyn
