#include "journal/sqlite_journal.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include "journal/batch_check.hpp"
#include "journal/journal_file.hpp"
#include "journal/sqlite_connection.hpp"
#include "journal/sqlite_errors.hpp"
#include "journal/steps.hpp"
#include "parsyn/error.hpp"
#include "system/write_log.hpp"

namespace parsyn {
namespace journal {
namespace {

// https://www.sqlite.org/fileformat.html, section 4.1.
constexpr std::int64_t kWalHeaderBytes = 32;
constexpr std::int64_t kWalFrameHeaderBytes = 24;

/// Which file lies under a name.
struct Place {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;

  explicit Place(std::string name) : path(std::move(name)) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return;
    device = info.st_dev;
    inode = info.st_ino;
  }

  /// Empty: still the same.
  std::string why_not_there() const {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return path + ": " + std::system_category().message(errno);
    if (info.st_dev == device && info.st_ino == inode) return {};
    return path + " is another file now";
  }
};

class SqliteJournal final : public Journal {
 public:
  SqliteJournal(std::string file, const SqliteJournalOptions &options, int checkpoint_frames)
      : file_(std::move(file)),
        log_(options.log),
        is_system_file_(options.vfs.empty()),
        checkpoint_frames_(checkpoint_frames),
        connection_(open_file(file_, options)),
        place_(file_),
        wal_place_(file_ + "-wal"),
        wal_frame_bytes_(kWalFrameHeaderBytes + std::stoll(connection_->ask("PRAGMA page_size"))) {
    ::sqlite3_wal_hook(
        connection_->get(),
        [](void *frames, sqlite3 *, const char *, int count) {
          *static_cast<int *>(frames) = count;
          return SQLITE_OK;
        },
        &wal_frames_);
  }

  ~SqliteJournal() override {
    std::string why_not = failure();
    if (why_not.empty()) why_not = why_not_in_place();
    try {
      // What lies under the names is somebody else's, or a flush must not be repeated.
      if (!why_not.empty()) {
        connection_->checkpoint_on_close(false);
      } else {
        connection_->checkpoint();
      }
    } catch (const SqliteFailure &failure) {
      // Nothing is lost: the next one to open the journal finds it in the -wal file.
      ::sqlite3_db_config(connection_->get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
      why_not = failure.text();
    }
    if (!why_not.empty()) {
      system::write_log(log_,
                        {LogLevel::warning,
                         "journal.close",
                         "the journal " + file_ + " was closed as it was, its -wal file kept: " + why_not,
                         {}});
    }
  }

  void commit(std::span<const JournalWrite> batch) override {
    check_batch(batch);
    const std::lock_guard lock(mutex_);
    const std::string reason = failure();
    if (!reason.empty()) throw Error(ErrorCode::io, reason);
    if (batch.empty()) return;
    const std::string why_not = why_not_in_place();
    if (!why_not.empty()) {
      throw Error(ErrorCode::unavailable,
                  "the journal was moved or removed while it is in use (" + why_not +
                      "); nothing of the batch is kept: put it back, or stop the coordinator");
    }

    const Transaction transaction(*connection_);
    bool is_committing = false;
    try {
      // Before the batch, so that what fails is never the flush of a batch that is kept already.
      if (wal_frames_ >= checkpoint_frames_) {
        connection_->checkpoint();
        wal_frames_ = 0;
      }
      begin_.run();
      for (const JournalWrite &write : batch) {
        if (write.document) {
          Statement::Use(put_).bind(1, write.table).bind(2, write.key).bind(3, *write.document).step();
        } else {
          Statement::Use(remove_).bind(1, write.table).bind(2, write.key).step();
        }
      }
      is_committing = true;
      commit_.run();
    } catch (const SqliteFailure &failure) {
      transaction.roll_back();
      refuse_locked(failure, is_committing);
    }
  }

  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    visit_in_steps(range, visit, [&](const KeyRange &rest) { return read(table, rest); });
  }

  std::string failure() const override {
    // A mutex of its own: whoever asks does not wait for a flush.
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  }

 private:
  /// However a commit ends, no transaction stays open.
  class Transaction {
   public:
    explicit Transaction(const Connection &connection) : connection_(connection) {}
    ~Transaction() { roll_back(); }
    void roll_back() const {
      // SQLite rolls back by itself after some failures.
      if (::sqlite3_get_autocommit(connection_.get()) == 0) {
        ::sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
      }
    }
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;

   private:
    const Connection &connection_;
  };

  std::string why_not_in_place() const {
    if (!is_system_file_) return {};
    std::string why_not = place_.why_not_there();
    return why_not.empty() ? wal_place_.why_not_there() : why_not;
  }

  /// A write that is refused can still complete what it was part of: the bytes may be there from an attempt
  /// before. After a crash the batch would be found, and its caller has been told that it is not kept.
  void cut_off_locked() {
    try {
      connection_->cut_wal(wal_frames_ == 0 ? 0 : kWalHeaderBytes + wal_frames_ * wal_frame_bytes_);
    } catch (const SqliteFailure &failure) {
      const std::string reason =
          "the journal " + file_ +
          " takes no further batch, as what a failed one has left could not be cut off: " + failure.text() +
          "; check its disk, then start the coordinator again";
      break_down(reason);
      throw Error(ErrorCode::io, reason);
    }
  }

  void break_down(const std::string &reason) const {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = reason;
  }

  [[noreturn]] void refuse_locked(const SqliteFailure &failure, bool is_committing) {
    if (failure.primary_code() == SQLITE_TOOBIG) {
      cut_off_locked();
      throw Error(ErrorCode::too_large,
                  "a document or key is longer than the journal " + file_ + " can hold (" +
                      std::to_string(::sqlite3_limit(connection_->get(), SQLITE_LIMIT_LENGTH, -1)) +
                      " bytes); nothing of its batch is kept");
    }
    // A commit that failed after its last write may be kept: only a refused write certainly is not.
    const bool is_passing =
        is_refused_write(failure) ||
        (!is_committing && !is_flush_failure(failure) &&
         (failure.primary_code() == SQLITE_IOERR || failure.primary_code() == SQLITE_NOMEM));
    if (is_passing) {
      cut_off_locked();
      throw Error(ErrorCode::unavailable, "cannot write to the journal " + file_ + ": " + failure.text() +
                                              "; nothing of the batch is kept: " + advice(failure) +
                                              ", then it can be tried again");
    }
    std::string reason;
    if (is_flush_failure(failure)) {
      reason = "the journal " + file_ +
               " takes no further batch, as a flush to its disk failed: " + failure.text() +
               "; what the system has dropped then, no second flush brings back: check the disk, then start "
               "the coordinator again, which goes on from what was acknowledged";
    } else if (is_damage(failure)) {
      reason = "the journal " + file_ + " takes no further batch, as it is damaged (" + failure.text() +
               "); " + restore_advice(file_);
    } else {
      reason = "the journal " + file_ +
               " takes no further batch after an unexpected failure: " + failure.text() +
               "; check its disk, then start the coordinator again";
    }
    break_down(reason);
    throw Error(ErrorCode::io, reason);
  }

  Step read(std::string_view table, const KeyRange &range) const {
    Step step;
    const std::lock_guard lock(mutex_);
    try {
      Statement::Use use(range.last.empty() ? read_from_ : read_between_);
      use.bind(1, table).bind(2, range.first);
      if (!range.last.empty()) use.bind(3, range.last);
      while (use.step()) {
        if (step.is_full()) {
          step.last = false;
          break;
        }
        step.add(use.text(0), use.text(1));
      }
    } catch (const SqliteFailure &failure) {
      if (!is_damage(failure)) {
        throw Error(ErrorCode::io,
                    "cannot read the journal " + file_ + ": " + failure.text() + "; check its disk");
      }
      const std::string reason =
          "the journal " + file_ + " is damaged (" + failure.text() + "); " + restore_advice(file_);
      break_down(reason);
      throw Error(ErrorCode::corrupt_data, reason);
    }
    return step;
  }

  const std::string file_;
  const LogSink log_;
  const bool is_system_file_;
  const int checkpoint_frames_;
  mutable std::mutex mutex_;
  const std::unique_ptr<Connection> connection_;  // guarded by mutex_, and so are its statements
  const Place place_;
  const Place wal_place_;
  const std::int64_t wal_frame_bytes_;
  int wal_frames_ = 0;  // that hold batches; guarded by mutex_
  Statement begin_{*connection_, "BEGIN IMMEDIATE"};
  Statement commit_{*connection_, "COMMIT"};
  Statement put_{*connection_,
                 "INSERT INTO documents(name, key, document) VALUES(?1, ?2, ?3)"
                 " ON CONFLICT(name, key) DO UPDATE SET document = excluded.document"};
  Statement remove_{*connection_, "DELETE FROM documents WHERE name = ?1 AND key = ?2"};
  mutable Statement read_from_{
      *connection_, "SELECT key, document FROM documents WHERE name = ?1 AND key >= ?2 ORDER BY key"};
  mutable Statement read_between_{*connection_,
                                  "SELECT key, document FROM documents WHERE name = ?1 AND key >= ?2"
                                  " AND key < ?3 ORDER BY key"};
  mutable std::mutex failure_mutex_;
  mutable std::string failure_;  // guarded by failure_mutex_
};

}  // namespace

std::shared_ptr<Journal> open_sqlite_journal(const SqliteJournalOptions &options, int checkpoint_frames) {
  std::string file = options.vfs.empty() ? prepare_file(options) : options.file.string();
  try {
    return std::make_shared<SqliteJournal>(file, options, checkpoint_frames);
  } catch (const SqliteFailure &failure) {
    throw opening_error(failure, file);
  }
}

}  // namespace journal

std::shared_ptr<Journal> make_sqlite_journal(const SqliteJournalOptions &options) {
  return journal::open_sqlite_journal(options, journal::kCheckpointFrames);
}

}  // namespace parsyn
