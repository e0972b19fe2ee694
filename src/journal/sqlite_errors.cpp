#include "journal/sqlite_errors.hpp"

#include <cerrno>

namespace parsyn::journal {

bool is_flush_failure(const SqliteFailure &failure) {
  return failure.code == SQLITE_IOERR_FSYNC || failure.code == SQLITE_IOERR_DIR_FSYNC;
}

bool is_damage(const SqliteFailure &failure) {
  return failure.primary_code() == SQLITE_CORRUPT || failure.primary_code() == SQLITE_NOTADB ||
         failure.code == SQLITE_IOERR_CORRUPTFS;
}

bool is_refused_write(const SqliteFailure &failure) {
  switch (failure.code) {
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_TRUNCATE:
      return true;
    default:
      return failure.primary_code() == SQLITE_FULL || failure.primary_code() == SQLITE_READONLY ||
             failure.primary_code() == SQLITE_CANTOPEN;
  }
}

std::string advice(const SqliteFailure &failure) {
  if (failure.primary_code() == SQLITE_FULL) return "free some space on its disk";
  if (failure.primary_code() == SQLITE_READONLY) return "make the file and its folder writable";
  switch (failure.system_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space on its disk, or raise the limit";
    case EROFS:
    case EACCES:
    case EPERM:
      return "make the file and its folder writable";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "check its disk";
  }
}

std::string restore_advice(const std::string &file) {
  return "restore it from a backup: stop the coordinator, move " + file + " and " + file +
         "-wal away, and put the backup in their place (a copy of the whole folder that was made while the "
         "coordinator was stopped, or a file that VACUUM INTO or .backup of the sqlite3 program made then)";
}

Error opening_error(const SqliteFailure &failure, const std::string &file) {
  if (is_damage(failure)) {
    return {ErrorCode::corrupt_data,
            "the journal " + file + " is damaged (" + failure.text() + "); " + restore_advice(file)};
  }
  const std::string what = "cannot open the journal " + file + ": " + failure.text() + "; ";
  if (is_flush_failure(failure)) {
    return {ErrorCode::io, what + "check its disk before the coordinator is started again"};
  }
  const ErrorCode code = is_refused_write(failure) ? ErrorCode::unavailable : ErrorCode::io;
  return {code, what + advice(failure)};
}

}  // namespace parsyn::journal
