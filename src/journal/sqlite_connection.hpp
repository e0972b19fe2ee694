// A thin cover of SQLite's C functions: what opens is closed, what fails throws.
//
// Thread-safety: none; the journal's mutex guards it.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace parsyn::journal {

/// What SQLite answered. Never leaves this layer: it becomes an Error where it is known what was tried.
struct SqliteFailure {
  int code = SQLITE_ERROR;  ///< Extended result code.
  int system_error = 0;     ///< errno, where SQLite knows it.
  std::string detail;       ///< SQLite's own words, where they say more than the code.

  int primary_code() const { return code & 0xFF; }
  /// "No space left on device".
  std::string text() const;
};

class Connection {
 public:
  /// `vfs`: empty for the system's. Opens an existing file, or makes one with `create`. Throws SqliteFailure.
  Connection(const std::string &file, const std::string &vfs, bool create);
  ~Connection();
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  sqlite3 *get() const { return database_; }
  /// Runs statements without a result, or whose result does not matter.
  void run(const char *sql) const;
  /// The first column of the first row, as text; empty without a row.
  std::string ask(const char *sql) const;
  /// Closing moves what the -wal file holds into the main file and removes it, or leaves both as they are.
  void checkpoint_on_close(bool wanted) const;
  /// Moves all of the -wal file into the main file, flushed, and empties it. By hand: SQLite's automatic one
  /// swallows failures, and repeats a flush that has failed.
  void checkpoint() const;
  /// Writes what is in the -wal file once more, where it is, and flushes it: after a flush that failed, the
  /// system may show bytes that are not on the disk, and take them for flushed.
  void write_wal_again() const;
  /// Cuts off what a failed commit has left in the -wal file behind its valid end, and flushes that.
  void cut_wal(std::int64_t bytes) const;
  /// Throws SqliteFailure.
  void check(int code) const;

 private:
  /// Null: not opened yet.
  sqlite3_file *wal() const;

  sqlite3 *database_ = nullptr;
};

/// A prepared statement, used many times. Destroyed before its connection.
class Statement {
 public:
  Statement(const Connection &connection, const char *sql);
  ~Statement();
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

  /// One use of a statement: bound text must outlive it, and afterwards the statement holds nothing.
  class Use {
   public:
    explicit Use(Statement &statement) : statement_(statement) {}
    ~Use();
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

    /// Throws SqliteFailure, as step() does.
    Use &bind(int index, std::string_view text);
    /// True: there is a row.
    bool step();
    std::string text(int column) const;

   private:
    Statement &statement_;
  };

  void run() { Use(*this).step(); }

 private:
  const Connection &connection_;
  sqlite3_stmt *statement_ = nullptr;
};

}  // namespace parsyn::journal
