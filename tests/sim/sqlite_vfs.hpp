// SQLite's files on a simulated disk: the real journal runs on it, torn and lost writes included.
//
// Version 1 of SQLite's methods: no shared memory and no locks, for a database has one user at a time there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "support/simulated_disk.hpp"

namespace parsyn::sim {

class SqliteVfs {
 public:
  struct Sources {
    std::function<std::int64_t()> wall_ms;
    std::function<std::uint64_t()> random;
  };
  /// Registered under name() until it is destroyed; the disk and all databases opened with it end earlier.
  SqliteVfs(test::SimulatedDisk &disk, Sources sources);
  ~SqliteVfs();
  SqliteVfs(const SqliteVfs &) = delete;
  SqliteVfs &operator=(const SqliteVfs &) = delete;

  const std::string &name() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// What SQLite draws by itself (the salts of a log) follows from `seed` from now on.
void seed_sqlite(std::uint64_t seed);

}  // namespace parsyn::sim
