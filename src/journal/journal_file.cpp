#include "journal/journal_file.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "journal/sqlite_errors.hpp"
#include "journal/sqlite_schema.hpp"
#include "parsyn/error.hpp"
#include "system/disk_kind.hpp"
#include "system/files.hpp"
#include "system/private_files.hpp"
#include "system/random.hpp"
#include "system/write_log.hpp"

namespace parsyn::journal {
namespace {

namespace fs = std::filesystem;

/// Of two that open the file at the same moment, each may keep the other out. So both let go and try again,
/// after a while that differs.
constexpr int kOpenAttempts = 5;
constexpr std::uint64_t kOpenWaitMsMax = 20;

[[noreturn]] void refuse(ErrorCode code, const std::string &message) { throw Error(code, message); }

void log(const SqliteJournalOptions &options, LogLevel level, std::string_view id, std::string text) {
  system::write_log(options.log, {level, id, std::move(text), {}});
}

// ---- Before SQLite sees the file. None of this opens it: closing it again would drop this process's locks
// on it, if a journal has it open already.

void check_disk(const fs::path &folder, const SqliteJournalOptions &options) {
  const std::string why_not = system::why_not_local_disk(folder);
  if (!why_not.empty()) refuse(ErrorCode::unsupported, "no journal can be kept here: " + why_not);
  const system::Disk disk = system::disk_of(folder);
  if (disk.kind == system::DiskKind::user) {
    log(options, LogLevel::warning, "journal.disk",
        folder.string() +
            " is on a FUSE file system: the journal is only as durable as that program makes it");
  } else if (disk.kind == system::DiskKind::memory) {
    log(options, LogLevel::warning, "journal.disk",
        folder.string() + " is in memory (" + std::string(disk.name) +
            "): the journal is lost when this machine stops");
  }
}

/// Written beside it, then renamed: a crash leaves no half-made file under the journal's name.
void make_file(const fs::path &file) {
  fs::path temporary = file;
  temporary += std::string(system::kTemporaryMark) + system::random_hex(8);
  const auto remove = [&] {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    fs::remove(temporary.string() + "-journal", ignored);
  };
  try {
    system::make_private_file(temporary);
    {
      const Connection connection(temporary.string(), {}, false);
      bring_up_to_date(connection, schema_steps());
    }
    // Not published: somebody else made one at the same time, and has it or has just let go of it.
    if (!system::publish_file(temporary, file)) remove();
  } catch (const SqliteFailure &failure) {
    remove();
    // Or somebody else was faster, and has swept this one away.
    std::error_code ignored;
    if (!fs::exists(file, ignored)) throw opening_error(failure, file.string());
  } catch (...) {
    remove();
    throw;
  }
}

// ---- SQLite has opened the file, and has not yet read it.

struct Header {
  std::uint64_t file_bytes = 0;
  std::array<unsigned char, 100> bytes{};

  std::uint32_t number(std::size_t at) const {
    return std::uint32_t{bytes[at]} << 24 | std::uint32_t{bytes[at + 1]} << 16 |
           std::uint32_t{bytes[at + 2]} << 8 | std::uint32_t{bytes[at + 3]};
  }
  // Offsets of https://www.sqlite.org/fileformat.html, section 1.3.
  bool is_database() const { return std::memcmp(bytes.data(), "SQLite format 3", 16) == 0; }
  std::uint64_t page_bytes() const {
    const unsigned bytes_of_page = bytes[16] << 8 | bytes[17];
    return bytes_of_page == 1 ? 65536 : bytes_of_page;
  }
  std::uint32_t pages() const { return number(28); }
  bool pages_are_known() const { return number(24) == number(92); }
  std::int64_t user_version() const { return static_cast<std::int32_t>(number(60)); }
  std::uint32_t application_id() const { return number(68); }
};

/// Through SQLite's own open file and without its locks and its recovery, so that nothing changes in a file
/// of somebody else.
Header read_header(const Connection &connection) {
  sqlite3_file *file = nullptr;
  connection.check(::sqlite3_file_control(connection.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file));
  Header header;
  sqlite3_int64 size = 0;
  connection.check(file->pMethods->xFileSize(file, &size));
  header.file_bytes = static_cast<std::uint64_t>(size);
  if (size > 0) {
    const int code =
        file->pMethods->xRead(file, header.bytes.data(), static_cast<int>(header.bytes.size()), 0);
    // Of a shorter file, the rest is zero.
    if (code != SQLITE_IOERR_SHORT_READ) connection.check(code);
  }
  return header;
}

/// Whether one of the files that SQLite keeps beside the database is there, and has content.
bool is_beside(const Connection &connection, const char *name) {
  sqlite3_vfs *vfs = nullptr;
  connection.check(::sqlite3_file_control(connection.get(), "main", SQLITE_FCNTL_VFS_POINTER, &vfs));
  int found = 0;
  connection.check(vfs->xAccess(vfs, name, SQLITE_ACCESS_EXISTS, &found));
  return found != 0;
}

void check_version(std::int64_t version, const std::string &file) {
  const auto known = static_cast<std::int64_t>(schema_steps().size());
  if (version >= 0 && version <= known) return;
  refuse(ErrorCode::unsupported,
         "the journal " + file + " was written by a newer parsyn: its format is version " +
             std::to_string(version) + ", and this parsyn knows none above " + std::to_string(known) +
             "; use the newer parsyn, or another folder (the file was left as it is)");
}

void check_header(const Header &header, bool is_unclean, const std::string &file) {
  const std::string left = "; choose another file, or restore it from a backup (it was left as it is)";
  if (header.file_bytes == 0) {
    refuse(ErrorCode::invalid_argument,
           file +
               " is empty, so it is not a journal of parsyn; remove it to begin anew, or restore it from a "
               "backup");
  }
  if (!header.is_database()) {
    refuse(ErrorCode::invalid_argument, file + " is not a journal of parsyn, nor any SQLite database" + left);
  }
  if (header.application_id() != kApplicationId) {
    refuse(ErrorCode::invalid_argument,
           file + " is not a journal of parsyn, but a SQLite database of another program" + left);
  }
  check_version(header.user_version(), file);
  // After a crash the -wal file may hold the rest.
  const std::uint64_t bytes = header.pages() * header.page_bytes();
  if (!is_unclean && header.pages_are_known() && header.file_bytes < bytes) {
    refuse(ErrorCode::corrupt_data, "the journal " + file + " is cut short: it has " +
                                        std::to_string(header.file_bytes) + " bytes of " +
                                        std::to_string(bytes) + "; " + restore_advice(file));
  }
}

// ---- SQLite reads the file.

[[noreturn]] void refuse_second_user(const std::string &file, bool is_system_file) {
  const pid_t pid = is_system_file ? system::lock_holder(file) : 0;
  if (pid == ::getpid()) {
    refuse(ErrorCode::conflict, "the journal " + file +
                                    " is open in this process already; a journal serves one "
                                    "coordinator");
  }
  refuse(ErrorCode::conflict, "the journal " + file + " is in use by another coordinator" +
                                  (pid > 0 ? " (pid " + std::to_string(pid) + ")" : std::string()) +
                                  "; stop that one, or choose another folder");
}

/// Before anything is read, so that WAL mode needs no shared memory: this lock is held until the end.
void lock(const Connection &connection) {
  connection.run("PRAGMA locking_mode=EXCLUSIVE");
  connection.run("BEGIN EXCLUSIVE; COMMIT");
}

void check_whole(const Connection &connection, const std::string &file) {
  std::string damage;
  Statement statement(connection, "PRAGMA quick_check(3)");
  Statement::Use check(statement);
  while (check.step()) {
    const std::string line = check.text(0);
    if (line != "ok") damage += (damage.empty() ? "" : "; ") + line;
  }
  for (char &letter : damage) {
    if (letter == '\n') letter = ' ';
  }
  if (!damage.empty()) {
    refuse(ErrorCode::corrupt_data,
           "the journal " + file + " is damaged (" + damage + "); " + restore_advice(file));
  }
}

void expect(const Connection &connection, const char *pragma, std::string_view wanted,
            const std::string &file) {
  const std::string got = connection.ask(pragma);
  if (got != wanted) {
    refuse(ErrorCode::unsupported, "cannot keep the journal " + file + " safely: SQLite answers \"" + got +
                                       "\" to " + pragma +
                                       "; use a local disk, and a SQLite with "
                                       "write-ahead logs");
  }
}

void open_checked(const Connection &connection, const std::string &file,
                  const SqliteJournalOptions &options) {
  const bool is_system_file = options.vfs.empty();
  // Until all is well, closing changes nothing.
  connection.checkpoint_on_close(false);
  if (::sqlite3_db_readonly(connection.get(), "main") != 0) {
    refuse(ErrorCode::unavailable,
           "cannot write to the journal " + file + "; make the file and its folder writable");
  }
  const char *const name = ::sqlite3_db_filename(connection.get(), "main");
  const bool is_unclean = is_beside(connection, ::sqlite3_filename_wal(name));
  const Header header = read_header(connection);
  // With a VFS, whose files cannot be renamed, a crash while the file is made leaves it empty or, with a
  // rollback journal beside it, half written.
  const bool is_new = !is_system_file && header.file_bytes == 0;
  const bool is_half_made = !is_system_file && is_beside(connection, ::sqlite3_filename_journal(name));
  if (!is_new && !is_half_made) check_header(header, is_unclean, file);

  // A file is input: nothing in it may call functions or hide overlapping cells.
  connection.run(
      "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
      "PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0");
  if (is_new || (is_half_made && connection.ask("PRAGMA page_count") == "0")) {
    // Also before the lock, which on an empty file would write a page that says nothing about whose it is.
    bring_up_to_date(connection, schema_steps());
  }
  lock(connection);
  if (connection.ask("PRAGMA application_id") != std::to_string(kApplicationId)) {
    refuse(ErrorCode::invalid_argument, file + " is not a journal of parsyn; choose another file");
  }
  check_version(std::stoll(connection.ask("PRAGMA user_version")), file);
  if (is_unclean) check_whole(connection, file);
  connection.run("PRAGMA synchronous=FULL");
  bring_up_to_date(connection, schema_steps());
  expect(connection, "PRAGMA journal_mode=WAL", "wal", file);
  expect(connection, "PRAGMA locking_mode", "exclusive", file);
  expect(connection, "PRAGMA synchronous", "2", file);
  if (is_unclean) {
    // What was found in the -wal file may have been flushed never, or with a failure that ended the process:
    // written and flushed anew, in the main file, before anybody relies on it. And in the -wal file before
    // that: else the older batches that are on the disk there would come over the main file's newer pages,
    // should the power fail before the -wal file is emptied.
    connection.write_wal_again();
    connection.checkpoint();
    log(options, LogLevel::info, "journal.recovered",
        "the journal " + file + " had not been closed; it was checked, and is whole");
  }
  // Opens the -wal file, where nothing has yet.
  connection.ask("SELECT 1 FROM documents LIMIT 1");
  if (is_system_file) {
    // Under the journal's lock, so nobody is making one who could succeed.
    system::remove_unfinished(file);
    system::flush_folder(fs::path(file).parent_path());
  }
  connection.checkpoint_on_close(true);
}

}  // namespace

std::string prepare_file(const SqliteJournalOptions &options) {
  if (options.file.native().find('\0') != std::string::npos) {
    refuse(ErrorCode::invalid_argument, "the journal's file has a NUL byte in its name");
  }
  if (!options.file.has_filename()) {
    refuse(ErrorCode::invalid_argument,
           "a journal needs a file; \"" + options.file.string() + "\" does not name one");
  }
  std::error_code error;
  // Absolute, so that a host that changes its working folder later still finds it.
  fs::path file = fs::absolute(options.file, error);
  if (!error) {
    system::make_folders(file.parent_path());
    const fs::file_status status = fs::status(file, error);
    if (fs::exists(status)) {
      if (fs::is_directory(status)) {
        refuse(ErrorCode::invalid_argument, file.string() + " is a folder; a journal is a file");
      }
      if (!fs::is_regular_file(status)) {
        refuse(ErrorCode::invalid_argument, file.string() + " is not a regular file, so it is not a journal");
      }
      file = fs::canonical(file, error);
      if (!error) check_disk(file.parent_path(), options);
    } else if (status.type() == fs::file_type::not_found) {
      file = fs::canonical(file.parent_path(), error) / file.filename();
      if (!error) {
        check_disk(file.parent_path(), options);
        std::error_code ignored;
        if (fs::file_size(file.string() + "-wal", ignored) > 0 && !ignored) {
          refuse(
              ErrorCode::invalid_argument,
              file.string() + " is missing, but " + file.string() +
                  "-wal, which belongs to it, is there; put the first back, or move the other away to begin "
                  "anew");
        }
        make_file(file);
      }
    }
  }
  if (error) {
    refuse(ErrorCode::io, "cannot find the journal " + options.file.string() + ": " + error.message());
  }
  return file.string();
}

std::unique_ptr<Connection> open_file(const std::string &file, const SqliteJournalOptions &options) {
  if (!options.vfs.empty() && ::sqlite3_vfs_find(options.vfs.c_str()) == nullptr) {
    refuse(ErrorCode::invalid_argument, "no SQLite VFS \"" + options.vfs + "\" is registered");
  }
  for (int attempt = 1;; ++attempt) {
    try {
      auto connection = std::make_unique<Connection>(file, options.vfs, !options.vfs.empty());
      open_checked(*connection, file, options);
      return connection;
    } catch (const SqliteFailure &failure) {
      if (failure.primary_code() != SQLITE_BUSY) throw opening_error(failure, file);
      if (attempt == kOpenAttempts || !options.vfs.empty()) refuse_second_user(file, options.vfs.empty());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(system::random_u64() % kOpenWaitMsMax));
  }
}

}  // namespace parsyn::journal
