// What may be the name of a job, worker, dataset or model: text for people, never a path or a key.
//
// Thread-safety: free functions without state.
#pragma once

#include <string>
#include <string_view>

namespace parsyn::core {

/// Empty for 1 to limits::kNameBytesMax bytes of UTF-8 without control characters; else what is wrong with
/// it.
std::string why_name_is_refused(std::string_view name);

/// Well-formed UTF-8 (RFC 3629): shortest forms only, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

/// Whether UTF-8 text has a control character: below U+0020, U+007F to U+009F.
bool has_control_characters(std::string_view text);

}  // namespace parsyn::core
