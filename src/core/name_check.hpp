// What may be the name of a job, worker, dataset or model: text for people, never a path or a key.
//
// Thread-safety: free functions without state.
#pragma once

#include <string>
#include <string_view>

namespace parsyn::core {

/// Empty for 1 to limits::kNameBytesMax bytes of UTF-8 without control and format characters, of which at
/// least one shows something; else what is wrong with it. The joiners U+200C and U+200D may stand between two
/// characters that show something: a variation selector belongs to the one before it.
std::string why_name_is_refused(std::string_view name);

}  // namespace parsyn::core
