// Files and folders for their owner alone, and who has one locked. Errors are as file_system.hpp says.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace parsyn::system {

/// Makes `folder` and those above it that are missing, 0700, and flushes the entry of each.
void make_private_folders(const std::filesystem::path &folder);
/// Makes an empty file, 0600. An error when there is one.
void make_private_file(const std::filesystem::path &path);
/// Gives a finished file its name and flushes its folder. False, and nothing done, where the name is taken or
/// `from` is gone: somebody else was faster.
bool publish_file(const std::filesystem::path &from, const std::filesystem::path &to);
/// The process that holds a POSIX lock on the file, as far as the system tells; else 0. Does not open the
/// file: closing it again would drop this process's own locks on it.
pid_t lock_holder(const std::filesystem::path &path);

}  // namespace parsyn::system
