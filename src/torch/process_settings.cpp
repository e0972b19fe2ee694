#include "torch/process_settings.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>

#include "parsyn/error.hpp"
#include "torch/errors.hpp"

namespace parsyn::torch {

namespace {

/// How often a scope that waits asks whether it should still.
constexpr std::chrono::milliseconds kAskInterval{50};

void throw_if(const CancelQuery &cancelled) {
  if (cancelled && cancelled())
    throw Error(ErrorCode::cancelled, "The computation was cancelled while it waited for its turn.");
}

/// The flags of libtorch that decide whether a CUDA device gives the same bits twice.
struct CudaFlags {
  bool deterministic_cudnn;
  bool benchmark_cudnn;
  bool tf32_cudnn;
  bool deterministic_algorithms;
  bool deterministic_algorithms_warn_only;
  at::Float32MatmulPrecision matmul_precision;

  static CudaFlags current() {
    const at::Context &context = at::globalContext();
    return {context.deterministicCuDNN(),
            context.benchmarkCuDNN(),
            context.allowTF32CuDNN(),
            context.deterministicAlgorithms(),
            context.deterministicAlgorithmsWarnOnly(),
            context.float32MatmulPrecision()};
  }
  void apply() const {
    at::Context &context = at::globalContext();
    context.setDeterministicCuDNN(deterministic_cudnn);
    context.setBenchmarkCuDNN(benchmark_cudnn);
    context.setAllowTF32CuDNN(tf32_cudnn);
    context.setDeterministicAlgorithms(deterministic_algorithms, deterministic_algorithms_warn_only);
    context.setFloat32MatmulPrecision(matmul_precision);
  }
};

// Operations without a deterministic form warn instead of failing: most are exact in practice.
constexpr CudaFlags kRepeatable{true, false, false, true, true, at::Float32MatmulPrecision::HIGHEST};

/// libtorch also rebuilds thread pools when it is told a number, so it is told only what is new to this
/// thread.
void use_threads(int threads) {
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

/// Lets computations in by order of arrival; only those with one setting are inside at once.
class Turnstile {
 public:
  void enter(int threads, bool cuda, const CancelQuery &cancelled) {
    std::unique_lock lock(mutex_);
    const auto ticket = waiting_.insert(waiting_.end(), next_ticket_++);
    try {
      while (!may_enter_locked(*ticket, threads, cuda)) {
        changed_.wait_for(lock, kAskInterval);
        lock.unlock();
        throw_if(cancelled);
        lock.lock();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      waiting_.erase(ticket);
      changed_.notify_all();
      throw;
    }
    waiting_.erase(ticket);
    if (inside_ == 0) {
      // Read before any of ours is set, so that it is the host's, on whichever thread that is.
      host_threads_ = at::get_num_threads();
      threads_ = threads;
      cuda_ = cuda;
      if (cuda) {
        host_flags_ = CudaFlags::current();
        kRepeatable.apply();
      }
    }
    ++inside_;
    changed_.notify_all();
    // OpenMP keeps a number for each thread as well, so every one that enters sets its own.
    use_threads(threads);
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    use_threads(host_threads_);
    if (--inside_ == 0 && cuda_) host_flags_.apply();
    changed_.notify_all();
  }

 private:
  bool may_enter_locked(std::uint64_t ticket, int threads, bool cuda) const {
    return waiting_.front() == ticket && (inside_ == 0 || (threads_ == threads && cuda_ == cuda));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::uint64_t> waiting_;
  std::uint64_t next_ticket_ = 0;
  std::size_t inside_ = 0;
  int threads_ = 0;
  bool cuda_ = false;
  int host_threads_ = 1;
  CudaFlags host_flags_ = kRepeatable;
};

Turnstile &turnstile() {
  static Turnstile instance;
  return instance;
}

std::timed_mutex &random_mutex() {
  static std::timed_mutex instance;
  return instance;
}

#if TORCH_VERSION_MAJOR >= 2
namespace warning_handlers = c10::WarningUtils;
#else
namespace warning_handlers = c10::Warning;
#endif

}  // namespace

class ComputeScope::WarningLog : public c10::WarningHandler {
 public:
  explicit WarningLog(LogSink log) : log_(std::move(log)), guard_(this) {}

#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning &warning) override { write(warning.msg()); }
#else
  void process(const c10::SourceLocation &, const std::string &message, bool) override { write(message); }
#endif

 private:
  void write(const std::string &message) const {
    if (!log_) return;
    log_({LogLevel::warning, "torch.warning", "libtorch: " + message.substr(0, message.find('\n')), {}});
  }

  LogSink log_;
  warning_handlers::WarningHandlerGuard guard_;
};

void check_not_forked() {
  static std::atomic<pid_t> computes{0};  // the first process that came here, and with it what it has set up
  const pid_t self = ::getpid();
  pid_t first = 0;
  if (computes.compare_exchange_strong(first, self) || first == self) return;
  throw Error(ErrorCode::unsupported,
              "This process is a fork of one that has computed with libtorch, and does not have its threads. "
              "Fork before the first training, or start a new program.");
}

ComputeScope::ComputeScope(ComputeSettings settings, const CancelQuery &cancelled)
    : warnings_(std::make_unique<WarningLog>(std::move(settings.log))) {
  check_not_forked();
  turnstile().enter(std::max(settings.threads, 1), settings.device.is_cuda(), cancelled);
}

ComputeScope::~ComputeScope() { turnstile().leave(); }

RandomScope::RandomScope(std::uint64_t seed, at::Device device, const CancelQuery &cancelled)
    : lock_(random_mutex(), std::defer_lock) {
  while (!lock_.try_lock_for(kAskInterval)) throw_if(cancelled);
  std::vector<at::Device> devices{at::Device(at::kCPU)};
  if (!device.is_cpu()) devices.push_back(device);
  for (const at::Device &each : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard generator_lock(generator.mutex());
    generators_.push_back({generator, generator.get_state()});
    generator.set_current_seed(seed);
  }
}

RandomScope::~RandomScope() {
  for (Borrowed &borrowed : generators_) {
    const std::lock_guard generator_lock(borrowed.generator.mutex());
    borrowed.generator.set_state(borrowed.former_state);
  }
}

}  // namespace parsyn::torch
