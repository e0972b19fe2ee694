// Tensor names in messages. A name comes from a peer and ends up in logs and on terminals.
#pragma once

#include <string>
#include <string_view>

namespace parsyn::tensor {

/// The name in double quotes, without control characters, shortened to about 120 bytes at a character's
/// border.
std::string quoted_name(std::string_view name);

}  // namespace parsyn::tensor
