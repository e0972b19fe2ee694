#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/journal.hpp"

namespace parsyn {
namespace journal {
namespace {

class MemoryJournal final : public Journal {
 public:
  void commit(std::span<const JournalWrite> batch) override {
    // Whatever can fail comes first, on a copy of its own; afterwards nodes only change hands.
    std::map<std::string, Changes> changes;
    for (const JournalWrite &write : batch) {
      check_name(write.table, "table");
      check_name(write.key, "key");
      Changes &table = changes[write.table];
      if (write.document) {
        table.removed.erase(write.key);
        table.put.insert_or_assign(write.key, *write.document);
      } else {
        table.put.erase(write.key);
        table.removed.insert(write.key);
      }
    }

    const std::lock_guard lock(mutex_);
    for (const auto &[name, table] : changes) tables_.try_emplace(name);
    for (auto &[name, change] : changes) {
      Table &table = tables_.find(name)->second;
      for (const std::string &key : change.removed) table.erase(key);
      while (!change.put.empty()) {
        auto node = change.put.extract(change.put.begin());
        table.erase(node.key());
        table.insert(std::move(node));
      }
    }
  }

  void for_each(
      std::string_view table,
      const std::function<void(std::string_view key, std::string_view document)> &visit) const override {
    // A copy: no lock is held while the caller's function runs.
    for (const auto &[key, document] : copy_of(table)) visit(key, document);
  }

 private:
  using Table = std::map<std::string, std::string>;
  struct Changes {
    Table put;
    std::set<std::string> removed;
  };

  static void check_name(const std::string &name, const char *what) {
    if (name.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  std::string("a journal write has an empty ") + what + "; nothing of its batch is kept");
    }
  }

  Table copy_of(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto at = tables_.find(name);
    return at == tables_.end() ? Table{} : at->second;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Table, std::less<>> tables_;  // guarded by mutex_
};

}  // namespace
}  // namespace journal

std::shared_ptr<Journal> make_memory_journal() { return std::make_shared<journal::MemoryJournal>(); }

}  // namespace parsyn
