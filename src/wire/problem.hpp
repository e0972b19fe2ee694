// An RFC 9457 problem document back into the Error that it tells of.
//
// Thread-safety: free function without state.
#pragma once

#include <string_view>

#include "parsyn/error.hpp"

namespace parsyn::wire {

/// From a problem document: its code, its detail as the message, its errors as faults. From any other body: a
/// code by `status` (400 invalid_argument, 401 unauthorized, 403 forbidden, 404 not_found, 409 conflict, 413
/// too_large, 429, 502, 503 and 504 unavailable, else protocol), and a message that tells the status. Never
/// throws for what `body` holds.
Error error_from_problem(int status, std::string_view body);

}  // namespace parsyn::wire
