// Which BLAS this process has loaded.
#pragma once

#include <istream>
#include <string>

namespace parsyn::torch {

/// A sentence when `memory_map`, in the format of /proc/self/maps, has the pthread build of OpenBLAS; else
/// empty.
std::string blas_warning_of(std::istream &memory_map);

}  // namespace parsyn::torch
