// What a program asks of its own process, first of all.
//
// Thread-safety: of one thread, before any other is started.
#pragma once

namespace parsyn::programs {

/// Writing to a pipe or a connection that nobody reads fails, instead of ending the process.
void ignore_broken_pipes();

/// As many open files as this process may have: shells often give a low limit, of programs that use select().
/// Where it cannot be raised, it stays.
void raise_open_files_limit();

}  // namespace parsyn::programs
