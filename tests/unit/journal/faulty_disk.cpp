#include "unit/journal/faulty_disk.hpp"

#include <sqlite3.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <stdexcept>

namespace parsyn::test {
namespace {

struct State {
  std::atomic<bool> armed{false};
  std::atomic<bool> failed{false};
  std::atomic<int> left{0};
  DiskFault fault = DiskFault::full;
  bool stays = false;
} state;

bool fails_now(bool is_flush) {
  if (!state.armed || is_flush != (state.fault == DiskFault::flush_error)) return false;
  const int left = --state.left;
  if (left > 0 || (left < 0 && !state.stays)) return false;
  state.failed = true;
  errno = state.fault == DiskFault::full ? ENOSPC : EIO;
  return true;
}

struct File {
  sqlite3_file base;
  sqlite3_file *real;
};

sqlite3_file *real_of(sqlite3_file *file) { return reinterpret_cast<File *>(file)->real; }

int close_file(sqlite3_file *file) { return real_of(file)->pMethods->xClose(real_of(file)); }
int read_file(sqlite3_file *file, void *out, int bytes, sqlite3_int64 at) {
  return real_of(file)->pMethods->xRead(real_of(file), out, bytes, at);
}
int write_file(sqlite3_file *file, const void *in, int bytes, sqlite3_int64 at) {
  if (fails_now(false)) {
    if (state.fault == DiskFault::late_error) real_of(file)->pMethods->xWrite(real_of(file), in, bytes, at);
    return state.fault == DiskFault::full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  }
  return real_of(file)->pMethods->xWrite(real_of(file), in, bytes, at);
}
int truncate_file(sqlite3_file *file, sqlite3_int64 bytes) {
  return real_of(file)->pMethods->xTruncate(real_of(file), bytes);
}
int flush_file(sqlite3_file *file, int flags) {
  if (fails_now(true)) return SQLITE_IOERR_FSYNC;
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}
int size_of_file(sqlite3_file *file, sqlite3_int64 *bytes) {
  return real_of(file)->pMethods->xFileSize(real_of(file), bytes);
}
int lock_file(sqlite3_file *file, int lock) { return real_of(file)->pMethods->xLock(real_of(file), lock); }
int unlock_file(sqlite3_file *file, int lock) {
  return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}
int check_reserved(sqlite3_file *file, int *found) {
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), found);
}
int control_file(sqlite3_file *file, int operation, void *argument) {
  return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}
int sector_bytes(sqlite3_file *file) { return real_of(file)->pMethods->xSectorSize(real_of(file)); }
int characteristics(sqlite3_file *file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

// Version 1: neither shared memory nor mapped pages.
const sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 1;
  methods.xClose = close_file;
  methods.xRead = read_file;
  methods.xWrite = write_file;
  methods.xTruncate = truncate_file;
  methods.xSync = flush_file;
  methods.xFileSize = size_of_file;
  methods.xLock = lock_file;
  methods.xUnlock = unlock_file;
  methods.xCheckReservedLock = check_reserved;
  methods.xFileControl = control_file;
  methods.xSectorSize = sector_bytes;
  methods.xDeviceCharacteristics = characteristics;
  return methods;
}();

sqlite3_vfs vfs;

int open_file(sqlite3_vfs *, const char *name, sqlite3_file *file, int flags, int *out_flags) {
  sqlite3_vfs *const real = ::sqlite3_vfs_find(nullptr);
  File *const own = new (file) File{};
  own->real = reinterpret_cast<sqlite3_file *>(own + 1);
  const int code = real->xOpen(real, name, own->real, flags, out_flags);
  own->base.pMethods = own->real->pMethods == nullptr ? nullptr : &kMethods;
  return code;
}

}  // namespace

FaultyDisk::FaultyDisk() {
  heal();
  // All but opening is the system's, which needs nothing of its own entry but what is copied here.
  vfs = *::sqlite3_vfs_find(nullptr);
  vfs.pNext = nullptr;
  vfs.zName = "parsyn-faulty-disk";
  vfs.iVersion = 1;
  vfs.szOsFile += static_cast<int>(sizeof(File));
  vfs.xOpen = open_file;
  if (::sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
    throw std::runtime_error("cannot register the faulty disk");
}

FaultyDisk::~FaultyDisk() { ::sqlite3_vfs_unregister(&vfs); }

std::string FaultyDisk::name() const { return vfs.zName; }

void FaultyDisk::fail_at(DiskFault fault, int count, bool stays) {
  state.fault = fault;
  state.left = count;
  state.stays = stays;
  state.failed = false;
  state.armed = true;
}

void FaultyDisk::heal() { state.armed = false; }

bool FaultyDisk::has_failed() const { return state.failed; }

}  // namespace parsyn::test
