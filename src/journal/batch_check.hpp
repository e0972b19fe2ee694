// What every journal asks of a batch before it looks at its disk.
#pragma once

#include <span>

#include "parsyn/journal.hpp"

namespace parsyn::journal {

/// Throws Error(invalid_argument) for a write without a table or a key.
void check_batch(std::span<const JournalWrite> batch);

}  // namespace parsyn::journal
