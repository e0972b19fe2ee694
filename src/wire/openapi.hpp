// docs/openapi.json, as it was when the library was built: what GET /api/v1/openapi.json serves.
//
// Thread-safety: a constant.
#pragma once

#include <string_view>

namespace parsyn::wire {

std::string_view openapi_document();

}  // namespace parsyn::wire
