// The coordinator's memory of what it has promised.
//
// A journal keeps documents (JSON text) in tables, by key. The coordinator commits a batch before it
// acknowledges what the batch says; when commit() returns, all of the batch is kept.
//
// Thread-safety: every method may be called from any thread; batches take effect one after the other.
// Lifetime: outlives the coordinator that uses it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parsyn/log.hpp"

namespace parsyn {

struct JournalWrite {
  std::string table = {};  ///< "jobs", "rounds", "workers", ...: one for each kind of document.
  std::string key = {};    ///< Unique in its table.
  std::optional<std::string> document = {};  ///< Absent: the key is removed.
};

/// The keys in [first, last), in the order of their bytes.
struct KeyRange {
  std::string first = {};
  std::string last = {};  ///< Empty: no end.
};

class Journal {
 public:
  using Visit = std::function<void(std::string_view key, std::string_view document)>;

  virtual ~Journal() = default;

  /// When it returns, all of the batch is durable, and for_each() shows it. Throws Error with
  /// - unavailable: nothing of the batch is kept, and the same batch may be tried again later (disk full or
  ///   over quota, read-only, folder moved away, other failed writes);
  /// - io: the journal is broken and takes no further batch: every later commit throws the same reason. A
  ///   flush that failed cannot be repeated, as the system may have dropped what it could not write. Whether
  ///   this one batch is kept, as a whole, shows when the journal is opened again;
  /// - invalid_argument, too_large: a write without a table or a key, or with a document that no journal
  ///   holds. Nothing of the batch is kept.
  virtual void commit(std::span<const JournalWrite> batch) = 0;

  /// Visits the table's documents in key order. `visit` runs with no lock held and may call the journal: the
  /// documents are read in steps, so a commit meanwhile may be seen in part. Throws what `visit` throws, and
  /// Error(io) or Error(corrupt_data) for what cannot be read. Goes on working after a failed commit.
  virtual void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const = 0;
  void for_each(std::string_view table, const Visit &visit) const { for_each(table, KeyRange{}, visit); }

  /// Why the journal takes no further batch; empty while it does.
  virtual std::string failure() const = 0;
};

/// Kept as long as the object lives.
std::shared_ptr<Journal> make_memory_journal();

struct SqliteJournalOptions {
  /// Made where it is missing, for its owner alone (0600), and so are its folders (0700). Beside it lies
  /// FILE-wal while the journal is open, and after a crash: the two belong together.
  std::filesystem::path file = {};
  /// The name of a registered SQLite VFS, which then alone decides what `file` means: no folder is made, and
  /// the kind of disk and a moved file are not checked. Needs no shared memory (version 1 of its methods is
  /// enough), and should be SQLITE_IOCAP_POWERSAFE_OVERWRITE. Empty: the operating system's files.
  std::string vfs = {};
  LogSink log = {};
};

/// A journal in one SQLite file, on a local disk. A batch is flushed to the disk before commit() returns; it
/// outlives the end of the process at any instruction, and loss of power on a disk that keeps what it has
/// flushed.
///
/// The file has one user at a time, this journal; nothing else in the process may open it meanwhile (POSIX
/// would then drop the locks that keep others out). For a backup close the journal, then copy the folder, or
/// use `VACUUM INTO` or `.backup` of the sqlite3 program.
///
/// Throws Error with
/// - invalid_argument: `file` is not a journal of parsyn (the file is left as it is), or there is no such
/// VFS;
/// - unsupported: the file was written by a newer parsyn (it is left as it is), or lies on a network file
///   system;
/// - conflict: somebody else uses it;
/// - corrupt_data: it is damaged;
/// - not_found, unavailable, io: the operating system refused something.
std::shared_ptr<Journal> make_sqlite_journal(const SqliteJournalOptions &options);

}  // namespace parsyn
