#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "journal/batch_check.hpp"
#include "journal/steps.hpp"
#include "parsyn/journal.hpp"

namespace parsyn {
namespace journal {
namespace {

class MemoryJournal final : public Journal {
 public:
  void commit(std::span<const JournalWrite> batch) override {
    check_batch(batch);
    // Whatever can fail comes first, on a copy of its own; afterwards nodes only change hands.
    std::map<std::string, Changes> changes;
    for (const JournalWrite &write : batch) {
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

  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    visit_in_steps(range, visit, [&](const KeyRange &rest) { return read(table, rest); });
  }

  std::string failure() const override { return {}; }

 private:
  using Table = std::map<std::string, std::string>;
  struct Changes {
    Table put;
    std::set<std::string> removed;
  };

  Step read(std::string_view name, const KeyRange &range) const {
    Step step;
    const std::lock_guard lock(mutex_);
    const auto table = tables_.find(name);
    if (table == tables_.end()) return step;
    for (auto at = table->second.lower_bound(range.first); at != table->second.end(); ++at) {
      if (!range.last.empty() && at->first >= range.last) break;
      if (step.is_full()) {
        step.last = false;
        break;
      }
      step.add(at->first, at->second);
    }
    return step;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Table, std::less<>> tables_;  // guarded by mutex_
};

}  // namespace
}  // namespace journal

std::shared_ptr<Journal> make_memory_journal() { return std::make_shared<journal::MemoryJournal>(); }

}  // namespace parsyn
