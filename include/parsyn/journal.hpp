// The coordinator's memory of what it has promised.
//
// A journal keeps documents (JSON text) in tables, by key. The coordinator commits a batch before it
// acknowledges what the batch says; when commit() returns, all of the batch is kept, or none of it after an
// exception.
//
// Thread-safety: every method may be called from any thread; batches take effect one after the other.
// Lifetime: outlives the coordinator that uses it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace parsyn {

struct JournalWrite {
  std::string table;  ///< "jobs", "rounds", "reports", "workers", "datasets", "models", "settings".
  std::string key;    ///< Unique in its table.
  std::optional<std::string> document;  ///< Absent: the key is removed.
};

class Journal {
 public:
  virtual ~Journal() = default;

  /// Throws Error(io): nothing of the batch is kept, and the journal takes no further batch.
  virtual void commit(std::span<const JournalWrite> batch) = 0;
  /// Visits the table's documents in key order. `visit` must not call the journal.
  virtual void for_each(
      std::string_view table,
      const std::function<void(std::string_view key, std::string_view document)> &visit) const = 0;
};

std::shared_ptr<Journal> make_memory_journal();

}  // namespace parsyn
