#include "common/listen_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "parsyn/error.hpp"
#include "text/encoding.hpp"

namespace parsyn::programs {
namespace {

bool is_numeric_address(const std::string &host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

ListenAddress parse_listen_address(std::string_view text) {
  const auto refused = [&](const std::string &why) {
    return Error(ErrorCode::invalid_argument,
                 "the address to listen on, '" + std::string(text) + "', " + why +
                     ": it looks like 127.0.0.1:8080 or [::1]:8080; port 0 takes a free one");
  };
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) throw refused("has no closing bracket");
    host = text.substr(1, bracket - 1);
    if (!text.substr(bracket + 1).starts_with(':')) throw refused("has no port");
    port = text.substr(bracket + 2);
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) throw refused("has no port");
    if (text.find(':', colon + 1) != std::string_view::npos)
      throw refused("is an IPv6 address without brackets");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) throw refused("has no host");
  if (host == "localhost") host = "127.0.0.1";
  if (!is_numeric_address(std::string(host)))
    throw refused("has a host that is neither a numeric IP address nor localhost");
  const auto number = text::parse_u64(port);
  if (!number || *number > 65'535) throw refused("has a port that is not a number from 0 to 65535");
  return {std::string(host), static_cast<std::uint16_t>(*number)};
}

}  // namespace parsyn::programs
