// The parts that the ledger watches, each a thin cover of the real one; and covers that break a promise on
// purpose, to see whether the ledger finds out.
#pragma once

#include <functional>
#include <memory>

#include "parsyn/journal.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/transport.hpp"
#include "sim/ledger.hpp"
#include "sim/world.hpp"

namespace parsyn::sim {

/// Lets the current fiber, one of this machine's, wait.
void pause(Machine &machine, Time duration);

Moment moment_of(const Machine &machine);

/// `before_commit` and `after_commit` may let time pass: a disk takes its time.
struct CommitPauses {
  std::function<Time()> before;
  std::function<Time()> after;
};
std::shared_ptr<Journal> watch_journal(std::shared_ptr<Journal> journal, Ledger &ledger, Machine &machine,
                                       CommitPauses pauses);
std::shared_ptr<ObjectStore> watch_store(std::shared_ptr<ObjectStore> store, Ledger &ledger);
/// Of this worker: what it sends and what it is told.
std::unique_ptr<Transport> watch_transport(std::unique_ptr<Transport> transport, Ledger &ledger, World &world,
                                           Id worker);

/// Answers first, and writes with the next batch.
std::shared_ptr<Journal> make_late_journal(std::shared_ptr<Journal> journal);
/// Loses the newest global model when the one after it is written.
std::shared_ptr<ObjectStore> make_forgetful_store(std::shared_ptr<ObjectStore> store);

}  // namespace parsyn::sim
