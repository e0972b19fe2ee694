// The URLs that the client takes, and how much of one may be shown.
#pragma once

#include <string>
#include <string_view>

namespace parsyn::http {

/// Without query, fragment and user information: a query may hold a signature, which is a secret.
std::string shown_url(std::string_view url);

/// Throws Error(invalid_argument) for what is not http:// or https:// with a host, for user information in it
/// (use an Authorization header), and for spaces and control characters.
void check_url(std::string_view url);

}  // namespace parsyn::http
