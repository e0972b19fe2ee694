// From a path to a connection that is ours alone: is there a file, is it a journal, who has it, is it whole?
#pragma once

#include <memory>
#include <string>

#include "journal/sqlite_connection.hpp"
#include "parsyn/journal.hpp"

namespace parsyn::journal {

/// For the system's files: makes the folder and the file where they are missing, checks the disk, and gives
/// the file's absolute name without links. Throws what make_sqlite_journal() throws.
std::string prepare_file(const SqliteJournalOptions &options);

/// Opens it, locks it, checks it and brings it up to date; in WAL mode, with nothing left in the -wal file. A
/// file that is refused is left as it is. Throws what make_sqlite_journal() throws.
std::unique_ptr<Connection> open_file(const std::string &file, const SqliteJournalOptions &options);

}  // namespace parsyn::journal
