#include "torch/device.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <string>

#include "parsyn/error.hpp"

namespace parsyn::torch {

namespace {

constexpr std::string_view kCudaPrefix = "cuda:";

// libtorch 2.4 gave autocast one set of functions for all devices, and deprecated those of each device.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
bool autocast_enabled(at::DeviceType type) { return at::autocast::is_autocast_enabled(type); }
void enable_autocast(at::DeviceType type, bool enabled) { at::autocast::set_autocast_enabled(type, enabled); }
at::ScalarType autocast_type(at::DeviceType type) { return at::autocast::get_autocast_dtype(type); }
void set_autocast_type(at::DeviceType type, at::ScalarType scalar) {
  at::autocast::set_autocast_dtype(type, scalar);
}
#else
bool autocast_enabled(at::DeviceType type) {
  return type == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
void enable_autocast(at::DeviceType type, bool enabled) {
  if (type == at::kCPU)
    at::autocast::set_cpu_enabled(enabled);
  else
    at::autocast::set_enabled(enabled);
}
at::ScalarType autocast_type(at::DeviceType type) {
  return type == at::kCPU ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
}
void set_autocast_type(at::DeviceType type, at::ScalarType scalar) {
  if (type == at::kCPU)
    at::autocast::set_autocast_cpu_dtype(scalar);
  else
    at::autocast::set_autocast_gpu_dtype(scalar);
}
#endif

double seconds_of_product(at::ScalarType type) {
  constexpr int kTries = 3;
  const at::Tensor factor = at::full({512, 512}, 0.5, at::TensorOptions(type));
  double least = std::numeric_limits<double>::infinity();
  // The first product also pays for what the library prepares once.
  for (int i = 0; i <= kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor product = factor.matmul(factor);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i > 0) least = std::min(least, elapsed.count());
  }
  return least;
}

}  // namespace

at::Device device_of(std::string_view name) {
  if (name == "cpu") return at::Device(at::kCPU);
  unsigned index = 0;
  const bool is_cuda = name.starts_with(kCudaPrefix);
  const auto digits = is_cuda ? name.substr(kCudaPrefix.size()) : std::string_view();
  const auto end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, index);
  if (!is_cuda || digits.empty() || parsed.ec != std::errc() || parsed.ptr != end)
    throw Error(ErrorCode::invalid_argument,
                "The device '" + std::string(name) + "' is neither \"cpu\" nor \"cuda:N\".");
  if (!::torch::cuda::is_available())
    throw Error(ErrorCode::unsupported,
                "The device '" + std::string(name) +
                    "' is not there: this build of libtorch has no CUDA, or the machine has no usable NVIDIA "
                    "driver. Use \"cpu\", or link a libtorch with CUDA.");
  const std::size_t count = ::torch::cuda::device_count();
  if (index >= count)
    throw Error(ErrorCode::unsupported, "The device '" + std::string(name) +
                                            "' is not there: the machine's CUDA devices are cuda:0 to cuda:" +
                                            std::to_string(count - 1) + ".");
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
}

AutocastScope::AutocastScope(at::Device device, bool enabled) : device_(device), active_(enabled) {
  if (!active_) return;
  was_enabled_ = autocast_enabled(device_.type());
  former_type_ = autocast_type(device_.type());
  enable_autocast(device_.type(), true);
  set_autocast_type(device_.type(), at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  // The cache holds bfloat16 copies of the weights, which change with the next step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  enable_autocast(device_.type(), was_enabled_);
  set_autocast_type(device_.type(), former_type_);
}

ProductSeconds measure_products() {
  return {seconds_of_product(at::kFloat), seconds_of_product(at::kBFloat16)};
}

}  // namespace parsyn::torch
