// Numbers in sentences.
//
// Thread-safety: a free function without state.
#pragma once

#include <cstdint>
#include <string>

namespace parsyn::core {

/// "1 worker", "2 workers".
inline std::string counted(std::uint64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace parsyn::core
