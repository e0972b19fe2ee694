// From what SQLite answered to what the journal's caller is told.
#pragma once

#include <string>

#include "journal/sqlite_connection.hpp"
#include "parsyn/error.hpp"

namespace parsyn::journal {

/// A flush failed. It must not be repeated: the system may have dropped what it could not write.
bool is_flush_failure(const SqliteFailure &failure);
/// The file does not hold what a database holds.
bool is_damage(const SqliteFailure &failure);
/// The system refused to write for now: nothing reached the disk that a later try would not write over.
bool is_refused_write(const SqliteFailure &failure);

/// What to do about it, as the end of a sentence.
std::string advice(const SqliteFailure &failure);
/// How to get back a damaged journal.
std::string restore_advice(const std::string &file);

/// While the journal is opened: "cannot open the journal FILE: ...".
Error opening_error(const SqliteFailure &failure, const std::string &file);

}  // namespace parsyn::journal
