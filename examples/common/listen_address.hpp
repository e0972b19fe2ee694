// HOST:PORT, as --listen takes it.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace parsyn::programs {

struct ListenAddress {
  std::string host;  ///< A numeric address without brackets.
  std::uint16_t port = 0;
};

/// "127.0.0.1:8080", "[::1]:8080", "localhost:0" (which is 127.0.0.1). Throws Error(invalid_argument) that
/// says what is wrong.
ListenAddress parse_listen_address(std::string_view text);

}  // namespace parsyn::programs
