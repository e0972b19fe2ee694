// The store over a disk whose power fails at every operation of many random sequences.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "parsyn/error.hpp"
#include "storage/file_store.hpp"
#include "support/catch.hpp"
#include "support/objects.hpp"
#include "support/simulated_disk.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

constexpr const char *kFolder = "/state/store";
/// One is the folder of others: after a crash neither may be in the other's way for ever.
const std::vector<std::string> kKeys{"a", "jobs/1", "jobs/1/a", "jobs/1/b", "jobs/2/c/d"};

/// Absent, or its bytes.
using State = std::optional<std::string>;
const State kAbsent;

/// What may be found under each key: one state, or several while a call has not returned.
class Expected {
 public:
  Expected() {
    for (const std::string &key : kKeys) states_[key] = {kAbsent};
  }
  void may_become(const std::string &key, const State &state) { states_[key].insert(state); }
  /// A removal that did not return may still be undone by a crash, also after another one that found nothing.
  void removed(const std::string &key) {
    if (states_[key].size() > 1) {
      may_become(key, kAbsent);
    } else {
      is(key, kAbsent);
    }
  }
  void is(const std::string &key, const State &state) { states_[key] = {state}; }
  bool allows(const std::string &key, const State &state) const { return states_.at(key).contains(state); }

 private:
  std::map<std::string, std::set<State>> states_;
};

std::string random_content(core::Random &random) {
  std::string content(random.below(3) == 0 ? random.below(4) : random.below(2'000), '\0');
  const std::uint64_t seed = random.bits();
  for (std::size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<char>((seed >> (i % 8 * 8)) + i / 8 * 7 + 1);
  return content;
}

void write_in_pieces(ObjectWriter &writer, std::string_view content, core::Random &random) {
  while (!content.empty()) {
    const std::size_t piece = std::min<std::size_t>(content.size(), 1 + random.below(1'500));
    writer.write(as_bytes(content.substr(0, piece)));
    content.remove_prefix(piece);
  }
}

void step(ObjectStore &store, core::Random &random, Expected &expected) {
  const std::string &key = kKeys[random.below(kKeys.size())];
  const std::uint64_t draw = random.below(10);
  if (draw < 6) {
    const std::string content = random_content(random);
    const auto writer = store.create(key);
    write_in_pieces(*writer, content, random);
    if (draw == 0) return;  // abandoned
    expected.may_become(key, content);
    writer->commit();
    expected.is(key, content);
  } else if (draw < 8) {
    Expected before = expected;
    expected.may_become(key, kAbsent);
    store.remove(key);
    before.removed(key);
    expected = before;
  } else if (draw == 8) {
    store.list("jobs/");
  } else {
    try {
      store.stat(key);
    } catch (const Error &error) {
      if (error.code() != ErrorCode::not_found) throw;
    }
  }
}

/// Steps until the power fails. Errors end a step, not the run.
void run_steps(SimulatedDisk &disk, core::Random &random, std::uint64_t steps, Expected &expected,
               const std::function<void(const Error &)> &on_error) {
  std::shared_ptr<ObjectStore> store;
  try {
    for (std::uint64_t i = 0; i < steps; ++i) {
      try {
        if (!store) store = storage::make_file_store(kFolder, disk);
        step(*store, random, expected);
      } catch (const Error &error) {
        // A key that is also a folder is refused. What else fails the caller judges.
        if (error.code() != ErrorCode::conflict) on_error(error);
      }
    }
  } catch (const PowerLost &) {
  }
}

void no_errors(const Error &error) { FAIL("unexpected: " << error.message()); }

enum class After { restart, crash };

/// What a fresh store shows that it should not; empty when all is well. What it shows is expected from then
/// on, and what it does not show, unless a crash that is still to come can undo the removal.
std::string look(SimulatedDisk &disk, Expected &expected, After after) {
  const auto store = storage::make_file_store(kFolder, disk);
  for (const std::string &file : disk.files()) {
    if (file.find(system::kTemporaryMark) != std::string::npos) return "unfinished file " + file;
  }
  const std::vector<std::string> listed = store->list("");
  for (const std::string &key : listed) {
    if (!std::ranges::count(kKeys, key)) return "unknown key " + key;
  }
  for (const std::string &key : kKeys) {
    State found;
    if (std::ranges::count(listed, key)) {
      found = get(*store, key);
      const ObjectInfo info = store->stat(key);
      if (info.bytes != found->size() || info.sha256 != system::sha256_hex(*found))
        return "wrong digest of " + key;
    }
    if (!expected.allows(key, found)) {
      return key + (found ? " has " + std::to_string(found->size()) + " unexpected bytes" : " is lost");
    }
    if (found || after == After::crash) expected.is(key, found);
  }
  return "";
}

/// After a crash: the machine's, or first the process's alone, whose successor looks around and works on
/// before the machine's.
std::string crash_and_look(SimulatedDisk &disk, core::Random &random, Expected &expected) {
  if (random.below(3) == 0) {
    disk.restart();
    if (std::string wrong = look(disk, expected, After::restart); !wrong.empty())
      return "restarted: " + wrong;
    run_steps(disk, random, 1, expected, no_errors);
  }
  disk.crash(random);
  if (std::string wrong = look(disk, expected, After::crash); !wrong.empty()) return wrong;
  // All that is left works.
  run_steps(disk, random, 2, expected, no_errors);
  disk.crash(random);
  return look(disk, expected, After::crash);
}

/// One sequence, with a crash at every operation that changes something. The number of crashes with which
/// something went wrong; the first of them is told.
struct Outcome {
  std::uint64_t crashes = 0;
  std::uint64_t wrong = 0;
  std::string first;
};

void crash_everywhere(std::uint64_t seed, const std::function<void(SimulatedDisk &)> &prepare,
                      Outcome &outcome) {
  const std::uint64_t steps = 2 + seed % 6;
  std::vector<std::uint64_t> changes;
  {
    SimulatedDisk disk;
    disk.before_operation = [&](const SimulatedDisk::Call &call) {
      if (SimulatedDisk::is_change(call.operation)) changes.push_back(call.index);
      return 0;
    };
    core::Random random(seed);
    Expected expected;
    run_steps(disk, random, steps, expected, no_errors);
    changes.push_back(disk.operations());
  }
  for (const std::uint64_t at : changes) {
    SimulatedDisk disk;
    prepare(disk);
    disk.before_operation = [&](const SimulatedDisk::Call &call) {
      if (call.index == at) throw PowerLost{};
      return 0;
    };
    core::Random random(seed);
    Expected expected;
    run_steps(disk, random, steps, expected, no_errors);
    disk.before_operation = nullptr;
    core::Random after(core::derive_seed({seed, at}));
    const std::string wrong = crash_and_look(disk, after, expected);
    ++outcome.crashes;
    if (wrong.empty()) continue;
    if (outcome.wrong++ == 0) {
      outcome.first = "seed " + std::to_string(seed) + ", crash at " + std::to_string(at) + ": " + wrong;
    }
  }
}

}  // namespace

TEST_CASE("whatever is committed outlives a crash at any operation, whole, and nothing torn is ever seen") {
  Outcome outcome;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed)
    crash_everywhere(
        seed, [](SimulatedDisk &) {}, outcome);
  INFO(outcome.first);
  CHECK(outcome.wrong == 0);
  CHECK(outcome.crashes > 50'000);
}

TEST_CASE("the crashes find out a store that does not flush its files, or its folders") {
  const bool files = GENERATE(true, false);
  Outcome outcome;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    crash_everywhere(
        seed,
        [&](SimulatedDisk &disk) { (files ? disk.ignore_file_flushes : disk.ignore_folder_flushes) = true; },
        outcome);
  }
  CHECK(outcome.wrong > outcome.crashes / 10);
}

TEST_CASE("operations that fail lose nothing that was committed, also when flushes lie afterwards") {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    CAPTURE(seed);
    core::Random faults(core::derive_seed({seed, 1}));
    SimulatedDisk disk;
    // Made beforehand: in a folder that it finds, a store has no say.
    storage::make_file_store(kFolder, disk);
    int error = 0;
    disk.before_operation = [&](const SimulatedDisk::Call &call) {
      const bool flush = call.operation == SimulatedDisk::Operation::flush ||
                         call.operation == SimulatedDisk::Operation::flush_folder;
      if (faults.below(flush ? 8 : 30) != 0) return 0;
      constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EMFILE, EROFS};
      error = kErrors[faults.below(std::size(kErrors))];
      return error;
    };
    core::Random random(seed);
    Expected expected;
    run_steps(disk, random, 10, expected, [&](const Error &thrown) {
      ++failed;
      REQUIRE((thrown.code() == ErrorCode::io || thrown.code() == ErrorCode::unavailable));
    });
    disk.before_operation = nullptr;
    core::Random after(core::derive_seed({seed, 2}));
    disk.crash(after);
    REQUIRE(look(disk, expected, After::crash) == "");
  }
  CHECK(failed > 1'000);
}
