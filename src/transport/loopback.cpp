#include "transport/loopback.hpp"

#include <algorithm>

#include "parsyn/error.hpp"

namespace parsyn::transport {

bool is_loopback_host(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost" || host == "::1") return true;
  // Four decimal numbers of which the first is 127: not a name that merely starts like it.
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

std::string checked_base_url(std::string url, bool allow_plain_http) {
  const bool tls = url.starts_with("https://");
  const bool plain = url.starts_with("http://");
  const auto refuse = [&](const std::string &why) {
    throw Error(
        ErrorCode::invalid_argument,
        "the coordinator's URL " + why + ": it looks like http://127.0.0.1:8080 or https://host:port");
  };
  if (!tls && !plain) refuse("does not start with http:// or https://");
  if (url.find_first_of(" \t\r\n") != std::string::npos) refuse("has white space in it");
  const std::string rest = url.substr(tls ? 8 : 7);
  const std::string authority = rest.substr(0, rest.find_first_of("/?#"));
  if (authority.empty()) refuse("has no host");
  if (authority.find('@') != std::string::npos) refuse("has credentials in it; give the token by file");
  if (rest.find_first_of("?#") != std::string::npos) refuse("has a query or fragment");
  const std::size_t colon = authority.rfind(':');
  const bool bracket_after = colon != std::string::npos && authority.find(']', colon) != std::string::npos;
  const std::string host =
      colon == std::string::npos || bracket_after ? authority : authority.substr(0, colon);
  if (plain && !allow_plain_http && !is_loopback_host(host)) {
    throw Error(ErrorCode::invalid_argument, "plain HTTP would show the token to everyone on the way to " +
                                                 host +
                                                 ": use https, or say that you want it (--allow-plain-http)");
  }
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace parsyn::transport
