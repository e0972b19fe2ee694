// Files for their owner alone, and who has one locked. Errors are as file_system.hpp says.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace parsyn::system {

/// Makes an empty file, 0600. An error where there is one.
void make_private_file(const std::filesystem::path &path);
/// The process that holds a POSIX lock on the file, as far as the system tells; else 0. Does not open the
/// file: closing it again would drop this process's own locks on it.
pid_t lock_holder(const std::filesystem::path &path);

}  // namespace parsyn::system
