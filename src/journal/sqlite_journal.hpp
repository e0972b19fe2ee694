// The journal in a SQLite file: one connection, one lock, one transaction for each batch.
#pragma once

#include <memory>

#include "parsyn/journal.hpp"

namespace parsyn::journal {

/// When a commit finds so many pages of 4 KiB in the -wal file, it first moves them into the main file.
inline constexpr int kCheckpointFrames = 1'000;

/// As make_sqlite_journal(), with a threshold of the caller's.
std::shared_ptr<Journal> open_sqlite_journal(const SqliteJournalOptions &options, int checkpoint_frames);

}  // namespace parsyn::journal
