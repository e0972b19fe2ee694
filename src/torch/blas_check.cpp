#include "torch/blas_check.hpp"

#include <fstream>

#include "parsyn/torch.hpp"

namespace parsyn::torch {

namespace {

/// Debian keeps each build of OpenBLAS in a folder of its own, under one name of the library.
constexpr std::string_view kPthreadFolder = "/openblas-pthread/";

}  // namespace

std::string blas_warning_of(std::istream &memory_map) {
  for (std::string line; std::getline(memory_map, line);) {
    const auto path = line.find('/');
    if (path == std::string::npos || line.find(kPthreadFolder, path) == std::string::npos) continue;
    return "The BLAS in use, " + line.substr(path) +
           ", is OpenBLAS built for pthreads: it keeps threads of its own beside libtorch's, so that "
           "training is "
           "slower and config.threads does not bound it. Install libopenblas0-openmp instead of "
           "libopenblas0-pthread.";
  }
  return {};
}

}  // namespace parsyn::torch

namespace parsyn {

std::string blas_warning() {
  std::ifstream memory_map("/proc/self/maps");
  return torch::blas_warning_of(memory_map);
}

}  // namespace parsyn
