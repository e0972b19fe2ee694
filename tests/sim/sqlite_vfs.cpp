#include "sim/sqlite_vfs.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include "parsyn/error.hpp"

namespace parsyn::sim {
namespace {

namespace fs = std::filesystem;

/// From the Unix epoch back to SQLite's, in milliseconds.
constexpr std::int64_t kJulianDayOfEpochMs = 210'866'760'000'000;
constexpr int kPathBytesMax = 512;

struct OpenFile {
  sqlite3_file base;  // first: SQLite sees this
  SqliteVfs::State *vfs;
  std::shared_ptr<test::SimulatedDisk::File> file;
  fs::path path;
  bool flush_folder_too;  // of a new file: SQLite's own layer does so at the first flush
  bool delete_on_close;
};

}  // namespace

struct SqliteVfs::State {
  test::SimulatedDisk &disk;
  Sources sources;
  std::string name;
  sqlite3_vfs vfs{};
};

namespace {

OpenFile &open_file(sqlite3_file *file) { return *reinterpret_cast<OpenFile *>(file); }
SqliteVfs::State &state_of(sqlite3_vfs *vfs) { return *static_cast<SqliteVfs::State *>(vfs->pAppData); }

/// No exception goes through SQLite.
template <typename Call>
int guarded(int failure, const Call &call) {
  try {
    return call();
  } catch (const Error &error) {
    const bool no_space = error.code() == ErrorCode::unavailable;
    errno = no_space ? ENOSPC : EIO;
    return no_space && failure == SQLITE_IOERR_WRITE ? SQLITE_FULL : failure;
  } catch (...) {
    errno = EIO;
    return failure;
  }
}

int close_file(sqlite3_file *file) {
  OpenFile &open = open_file(file);
  const int code = guarded(SQLITE_IOERR_CLOSE, [&] {
    if (open.delete_on_close) open.vfs->disk.remove(open.path);
    return SQLITE_OK;
  });
  open.~OpenFile();
  return code;
}

int read_file(sqlite3_file *file, void *out, int bytes, sqlite3_int64 offset) {
  return guarded(SQLITE_IOERR_READ, [&] {
    const auto wanted = static_cast<std::size_t>(bytes);
    auto *const to = static_cast<std::byte *>(out);
    const std::size_t got =
        open_file(file).file->read_at(static_cast<std::uint64_t>(offset), std::span(to, wanted));
    if (got == wanted) return SQLITE_OK;
    std::memset(to + got, 0, wanted - got);
    return SQLITE_IOERR_SHORT_READ;
  });
}

int write_file(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 offset) {
  return guarded(SQLITE_IOERR_WRITE, [&] {
    open_file(file).file->write_at(
        static_cast<std::uint64_t>(offset),
        std::span(static_cast<const std::byte *>(from), static_cast<std::size_t>(bytes)));
    return SQLITE_OK;
  });
}

int truncate_file(sqlite3_file *file, sqlite3_int64 bytes) {
  return guarded(SQLITE_IOERR_TRUNCATE, [&] {
    open_file(file).file->truncate(static_cast<std::uint64_t>(bytes));
    return SQLITE_OK;
  });
}

int flush_file(sqlite3_file *file, int) {
  OpenFile &open = open_file(file);
  const int code = guarded(SQLITE_IOERR_FSYNC, [&] {
    open.file->flush();
    return SQLITE_OK;
  });
  if (code != SQLITE_OK || !open.flush_folder_too) return code;
  return guarded(SQLITE_IOERR_DIR_FSYNC, [&] {
    open.vfs->disk.flush_folder(open.path.parent_path());
    open.flush_folder_too = false;
    return SQLITE_OK;
  });
}

int size_of_file(sqlite3_file *file, sqlite3_int64 *bytes) {
  return guarded(SQLITE_IOERR_FSTAT, [&] {
    *bytes = static_cast<sqlite3_int64>(open_file(file).file->size());
    return SQLITE_OK;
  });
}

int lock_file(sqlite3_file *, int) { return SQLITE_OK; }
int is_reserved(sqlite3_file *, int *answer) {
  *answer = 0;
  return SQLITE_OK;
}
int control_file(sqlite3_file *, int, void *) { return SQLITE_NOTFOUND; }
int sector_bytes(sqlite3_file *) { return 512; }
int characteristics(sqlite3_file *) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kMethods{
    1,         close_file, read_file,   write_file,   truncate_file, flush_file,      size_of_file,
    lock_file, lock_file,  is_reserved, control_file, sector_bytes,  characteristics, nullptr,
    nullptr,   nullptr,    nullptr,     nullptr,      nullptr};

int open_path(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flags_out) {
  file->pMethods = nullptr;
  if (name == nullptr) return SQLITE_CANTOPEN;  // temporary files stay in memory
  return guarded(SQLITE_CANTOPEN, [&] {
    SqliteVfs::State &state = state_of(vfs);
    const bool create = (flags & SQLITE_OPEN_CREATE) != 0;
    const bool is_new = create && !state.disk.exists(name);
    auto opened = state.disk.open_file(name, create);
    const bool beside =
        (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    new (file) OpenFile{{&kMethods}, &state,           std::move(opened),
                        name,        is_new && beside, (flags & SQLITE_OPEN_DELETEONCLOSE) != 0};
    if (flags_out != nullptr) *flags_out = flags;
    return SQLITE_OK;
  });
}

int delete_path(sqlite3_vfs *vfs, const char *name, int flush_folder) {
  return guarded(SQLITE_IOERR_DELETE, [&] {
    test::SimulatedDisk &disk = state_of(vfs).disk;
    if (!disk.remove(name)) return SQLITE_IOERR_DELETE_NOENT;
    if (flush_folder != 0) disk.flush_folder(fs::path(name).parent_path());
    return SQLITE_OK;
  });
}

int access_path(sqlite3_vfs *vfs, const char *name, int, int *answer) {
  return guarded(SQLITE_IOERR_ACCESS, [&] {
    const auto status = state_of(vfs).disk.status(name);
    *answer = status && status->identity.bytes > 0 ? 1 : 0;
    return SQLITE_OK;
  });
}

int full_path(sqlite3_vfs *, const char *name, int bytes, char *out) {
  if (std::strlen(name) >= static_cast<std::size_t>(bytes)) return SQLITE_CANTOPEN;
  std::strcpy(out, name);
  return SQLITE_OK;
}

int draw_bytes(sqlite3_vfs *vfs, int bytes, char *out) {
  for (int i = 0; i < bytes; ++i) out[i] = static_cast<char>(state_of(vfs).sources.random() & 0xff);
  return bytes;
}

int wait_for_nothing(sqlite3_vfs *, int microseconds) { return microseconds; }

int now_in_ms(sqlite3_vfs *vfs, sqlite3_int64 *now) {
  *now = kJulianDayOfEpochMs + state_of(vfs).sources.wall_ms();
  return SQLITE_OK;
}

int now_in_days(sqlite3_vfs *vfs, double *now) {
  sqlite3_int64 ms = 0;
  now_in_ms(vfs, &ms);
  *now = static_cast<double>(ms) / 86'400'000.0;
  return SQLITE_OK;
}

int last_error(sqlite3_vfs *, int, char *) { return errno; }

std::uint64_t instances = 0;

}  // namespace

SqliteVfs::SqliteVfs(test::SimulatedDisk &disk, Sources sources)
    : state_(new State{disk, std::move(sources), "simulated-" + std::to_string(++instances)}) {
  sqlite3_vfs &vfs = state_->vfs;
  vfs.iVersion = 2;
  vfs.szOsFile = sizeof(OpenFile);
  vfs.mxPathname = kPathBytesMax;
  vfs.zName = state_->name.c_str();
  vfs.pAppData = state_.get();
  vfs.xOpen = open_path;
  vfs.xDelete = delete_path;
  vfs.xAccess = access_path;
  vfs.xFullPathname = full_path;
  vfs.xRandomness = draw_bytes;
  vfs.xSleep = wait_for_nothing;
  vfs.xCurrentTime = now_in_days;
  vfs.xGetLastError = last_error;
  vfs.xCurrentTimeInt64 = now_in_ms;
  ::sqlite3_vfs_register(&vfs, 0);
}

SqliteVfs::~SqliteVfs() { ::sqlite3_vfs_unregister(&state_->vfs); }

const std::string &SqliteVfs::name() const { return state_->name; }

void seed_sqlite(std::uint64_t seed) {
  const int number = static_cast<int>(seed & 0x3fffffff) | 1;
  ::sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, number, static_cast<sqlite3 *>(nullptr));
}

}  // namespace parsyn::sim
