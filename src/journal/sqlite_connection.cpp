#include "journal/sqlite_connection.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

namespace parsyn::journal {
namespace {

/// SQLite's own file layer takes less than 128 KiB in one call.
constexpr int kCopyBytes = 1 << 16;

}  // namespace

std::string SqliteFailure::text() const {
  // SQLite forgets errno where the disk is full.
  if (primary_code() == SQLITE_FULL) return std::system_category().message(ENOSPC);
  if (primary_code() == SQLITE_NOMEM) return std::system_category().message(ENOMEM);
  std::string text = detail.empty() ? ::sqlite3_errstr(code) : detail;
  if (system_error != 0) text = std::system_category().message(system_error) + " (" + text + ")";
  return text;
}

Connection::Connection(const std::string &file, const std::string &vfs, bool create) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
  errno = 0;
  const int code = ::sqlite3_open_v2(file.c_str(), &database_, flags, vfs.empty() ? nullptr : vfs.c_str());
  if (code == SQLITE_OK) {
    ::sqlite3_extended_result_codes(database_, 1);
    return;
  }
  SqliteFailure failure{code, 0, {}};
  if (database_ != nullptr) {
    failure.code = ::sqlite3_extended_errcode(database_);
    failure.system_error = errno;
    failure.detail = ::sqlite3_errmsg(database_);
    ::sqlite3_close(database_);
  }
  throw failure;
}

Connection::~Connection() { ::sqlite3_close(database_); }

void Connection::check(int code) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  // SQLite's own record of errno leaves out what fails in a commit. For other codes errno means nothing.
  const int primary = code & 0xFF;
  const bool has_errno = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
  throw SqliteFailure{code, has_errno ? errno : 0, ::sqlite3_errmsg(database_)};
}

void Connection::run(const char *sql) const {
  errno = 0;
  check(::sqlite3_exec(database_, sql, nullptr, nullptr, nullptr));
}

void Connection::checkpoint() const {
  errno = 0;
  check(::sqlite3_wal_checkpoint_v2(database_, "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr));
}

sqlite3_file *Connection::wal() const {
  sqlite3_file *wal = nullptr;
  check(::sqlite3_file_control(database_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal));
  // Without methods it is not opened yet.
  return wal == nullptr || wal->pMethods == nullptr ? nullptr : wal;
}

void Connection::write_wal_again() const {
  errno = 0;
  sqlite3_file *const file = wal();
  if (file == nullptr) return;
  sqlite3_int64 size = 0;
  check(file->pMethods->xFileSize(file, &size));
  std::vector<char> part(kCopyBytes);
  for (sqlite3_int64 at = 0; at < size;) {
    const auto bytes = static_cast<int>(std::min<sqlite3_int64>(size - at, kCopyBytes));
    check(file->pMethods->xRead(file, part.data(), bytes, at));
    check(file->pMethods->xWrite(file, part.data(), bytes, at));
    at += bytes;
  }
  check(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL));
}

void Connection::cut_wal(std::int64_t bytes) const {
  errno = 0;
  sqlite3_file *const file = wal();
  if (file == nullptr) return;
  sqlite3_int64 now = 0;
  check(file->pMethods->xFileSize(file, &now));
  if (now <= bytes) return;
  check(file->pMethods->xTruncate(file, bytes));
  check(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL));
}

std::string Connection::ask(const char *sql) const {
  Statement statement(*this, sql);
  Statement::Use use(statement);
  if (!use.step()) return {};
  std::string answer = use.text(0);
  // To the end: some pragmas give their answer first, and fail then.
  while (use.step()) {
  }
  return answer;
}

void Connection::checkpoint_on_close(bool wanted) const {
  check(::sqlite3_db_config(database_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, wanted ? 0 : 1, nullptr));
}

Statement::Statement(const Connection &connection, const char *sql) : connection_(connection) {
  connection.check(
      ::sqlite3_prepare_v3(connection.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr));
}

Statement::~Statement() { ::sqlite3_finalize(statement_); }

Statement::Use::~Use() {
  ::sqlite3_reset(statement_.statement_);
  ::sqlite3_clear_bindings(statement_.statement_);
}

Statement::Use &Statement::Use::bind(int index, std::string_view text) {
  // A null pointer would be bound as NULL.
  const char *const bytes = text.data() == nullptr ? "" : text.data();
  statement_.connection_.check(
      ::sqlite3_bind_text64(statement_.statement_, index, bytes, text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

bool Statement::Use::step() {
  errno = 0;
  const int code = ::sqlite3_step(statement_.statement_);
  statement_.connection_.check(code);
  return code == SQLITE_ROW;
}

std::string Statement::Use::text(int column) const {
  const auto *const bytes =
      reinterpret_cast<const char *>(::sqlite3_column_text(statement_.statement_, column));
  const int size = ::sqlite3_column_bytes(statement_.statement_, column);
  if (bytes == nullptr) {
    // A document is never NULL, so there was no memory to hold it.
    statement_.connection_.check(::sqlite3_errcode(statement_.connection_.get()));
    return {};
  }
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace parsyn::journal
