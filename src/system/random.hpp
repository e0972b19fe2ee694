// Randomness of the operating system, for tokens and seeds: never inside the pure layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace parsyn::system {

/// `bytes` random bytes as hex.
std::string random_hex(std::size_t bytes);
std::uint64_t random_u64();

}  // namespace parsyn::system
