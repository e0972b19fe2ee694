// What is in the file, and how a file of an older parsyn becomes one of this.
#pragma once

#include <cstdint>
#include <span>

#include "journal/sqlite_connection.hpp"

namespace parsyn::journal {

/// "PsJr", in the file's header: tells a journal of parsyn from other databases.
inline constexpr std::uint32_t kApplicationId = 0x50734A72;

/// In their order: step i makes a file of version i into one of version i + 1. A new file has version 0. Only
/// ever added to: files of every version are in use.
std::span<const char *const> schema_steps();

/// Takes all steps that the file lacks, in one transaction: after a failure it is what it was. A file of a
/// version above steps.size() must have been refused before. Throws SqliteFailure.
void bring_up_to_date(const Connection &connection, std::span<const char *const> steps);

}  // namespace parsyn::journal
