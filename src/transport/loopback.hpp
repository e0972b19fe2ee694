// Plain HTTP is for loopback only, on both sides.
#pragma once

#include <string>
#include <string_view>

namespace parsyn::transport {

/// 127.0.0.0/8, ::1 (with or without brackets), localhost.
bool is_loopback_host(std::string_view host);

/// The URL without a slash at its end. Throws Error(invalid_argument) when it is not
/// http(s)://HOST[:PORT][/PATH], holds credentials or a query, or is plain HTTP beyond loopback without
/// `allow_plain_http`.
std::string checked_base_url(std::string url, bool allow_plain_http);

}  // namespace parsyn::transport
