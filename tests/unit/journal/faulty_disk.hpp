// A disk that fails when it is told to: a SQLite VFS over the system's.
#pragma once

#include <string>

namespace parsyn::test {

enum class DiskFault {
  full,         ///< A write finds no space.
  write_error,  ///< A write fails with EIO.
  late_error,   ///< The same, but the bytes are written all the same.
  flush_error,  ///< A flush fails with EIO.
};

/// One at a time. Lives longer than what uses it.
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk &) = delete;
  FaultyDisk &operator=(const FaultyDisk &) = delete;

  /// Its VFS.
  std::string name() const;
  /// The `count`-th call of this kind from now on fails (1: the next), and with `stays` every one after it.
  void fail_at(DiskFault fault, int count, bool stays);
  void heal();
  bool has_failed() const;
};

}  // namespace parsyn::test
