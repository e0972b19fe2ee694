// Writes and flushes that fail, each at every place where one can.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <set>

#include "journal/sqlite_journal.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "unit/journal/documents.hpp"
#include "unit/journal/faulty_disk.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// So that a few batches are enough for several checkpoints.
constexpr int kFewFrames = 6;

std::vector<JournalWrite> batch_of(int number) {
  const std::string text(number % 3 == 0 ? 20'000 : 100, static_cast<char>('a' + number));
  return {{"t", std::to_string(number), text},
          {"t", "last", std::to_string(number)},
          {"t", std::to_string(number - 2), std::nullopt}};
}

void apply(Documents &documents, const std::vector<JournalWrite> &batch) {
  for (const JournalWrite &write : batch) {
    documents.erase(write.key);
    if (write.document) documents.emplace(write.key, *write.document);
  }
}

struct Outcome {
  Documents acknowledged;
  std::optional<Documents> in_doubt;  ///< And the batch whose flush failed.
  std::set<ErrorCode> codes;
  bool opened = false;
};

bool is_possible(const Outcome &outcome, const Documents &found) {
  return found == outcome.acknowledged || (outcome.in_doubt && found == *outcome.in_doubt);
}

void commit_ten(Journal &journal, FaultyDisk &disk, bool stays, Outcome &outcome) {
  for (int number = 1; number <= 10; ++number) {
    const std::vector<JournalWrite> batch = batch_of(number);
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        commit(journal, batch);
        apply(outcome.acknowledged, batch);
        break;
      } catch (const Error &error) {
        outcome.codes.insert(error.code());
        // Reads stay up, and show what was acknowledged.
        REQUIRE(documents(journal) == outcome.acknowledged);
        if (error.code() == ErrorCode::io) {
          outcome.in_doubt = outcome.acknowledged;
          apply(*outcome.in_doubt, batch);
          disk.heal();
          REQUIRE(journal.failure() == error.message());
          const Error again = error_of([&] { commit(journal, batch_of(11)); });
          REQUIRE(again.code() == ErrorCode::io);
          REQUIRE(again.message() == error.message());
          return;
        }
        REQUIRE(error.code() == ErrorCode::unavailable);
        REQUIRE(journal.failure().empty());
        // A fault that has passed does not hold up the second attempt.
        REQUIRE((attempt == 0 || stays));
      }
    }
  }
}

Outcome run(const std::filesystem::path &file, const std::filesystem::path &image, FaultyDisk &disk,
            bool stays) {
  Outcome outcome;
  std::shared_ptr<Journal> journal;
  try {
    journal = journal::open_sqlite_journal({file, disk.name(), {}}, kFewFrames);
  } catch (const Error &error) {
    outcome.codes.insert(error.code());
    return outcome;
  }
  outcome.opened = true;
  commit_ten(*journal, disk, stays, outcome);
  // A crash at this moment.
  const auto crashed = open_journal(copy_of(file, image));
  REQUIRE(is_possible(outcome, documents(*crashed)));
  // The rest of the faults hits the closing.
  return outcome;
}

}  // namespace

TEST_CASE("whichever write or flush fails, exactly what was acknowledged is there afterwards") {
  const DiskFault fault =
      GENERATE(DiskFault::full, DiskFault::write_error, DiskFault::late_error, DiskFault::flush_error);
  const bool stays = GENERATE(false, true);
  FaultyDisk disk;
  // Where there is one: thousands of flushes, none of which is to outlive the machine.
  const std::filesystem::path memory = "/dev/shm";
  const auto parent = std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  std::set<ErrorCode> codes;
  bool failed = true;
  int count = 0;
  while (failed) {
    ++count;
    CAPTURE(count, static_cast<int>(fault), stays);
    const TemporaryFolder folder(parent);
    const std::filesystem::path state = folder.path() / "state";
    std::filesystem::create_directory(state);
    disk.fail_at(fault, count, stays);
    const Outcome outcome = run(state / "journal.sqlite", folder.path() / "image", disk, stays);
    failed = disk.has_failed();
    disk.heal();
    if (outcome.opened) codes.insert(outcome.codes.begin(), outcome.codes.end());
    const auto journal =
        journal::open_sqlite_journal({state / "journal.sqlite", disk.name(), {}}, kFewFrames);
    REQUIRE(is_possible(outcome, documents(*journal)));
    commit(*journal, batch_of(12));
  }
  const std::set<ErrorCode> expected{fault == DiskFault::flush_error ? ErrorCode::io
                                                                     : ErrorCode::unavailable};
  CHECK(codes == expected);
  // Opening, ten batches and several checkpoints have so many.
  CHECK(count > (fault == DiskFault::flush_error ? 20 : 60));
}

TEST_CASE("what a failed batch is told names the file, the system's reason and what to do") {
  FaultyDisk disk;
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "journal.sqlite").string();
  const auto journal = journal::open_sqlite_journal({file, disk.name(), {}}, kFewFrames);
  disk.fail_at(DiskFault::full, 1, false);
  const Error full = error_of([&] { commit(*journal, batch_of(1)); });
  CHECK(full.message() ==
        "cannot write to the journal " + file +
            ": No space left on device; nothing of the batch is kept: free some space on its "
            "disk, then it can be tried again");
  disk.fail_at(DiskFault::write_error, 1, false);
  CHECK(mentions(error_of([&] { commit(*journal, batch_of(1)); }), "Input/output error"));
  disk.fail_at(DiskFault::flush_error, 1, false);
  const Error broken = error_of([&] { commit(*journal, batch_of(1)); });
  CHECK(mentions(broken, file));
  CHECK(mentions(broken, "Input/output error"));
  CHECK(mentions(broken, "takes no further batch"));
}

TEST_CASE("a journal that is broken is closed as it is") {
  FaultyDisk disk;
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "journal.sqlite";
  auto journal = journal::open_sqlite_journal({file, disk.name(), {}}, 1'000);
  commit(*journal, batch_of(1));
  disk.fail_at(DiskFault::flush_error, 1, false);
  CHECK(error_of([&] { commit(*journal, batch_of(2)); }).code() == ErrorCode::io);
  // No flush that succeeds now means anything for what is in this file.
  const auto before = std::filesystem::file_size(file.string() + "-wal");
  journal.reset();
  CHECK(std::filesystem::file_size(file.string() + "-wal") == before);
  CHECK(documents(*open_journal(file)).count("1") == 1);
}

TEST_CASE("a failed flush of the main file is not repeated at the end") {
  FaultyDisk disk;
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "journal.sqlite";
  std::vector<std::string> logged;
  {
    const auto journal = journal::open_sqlite_journal(
        {file, disk.name(), [&](const LogRecord &record) { logged.emplace_back(record.id); }}, 1'000);
    commit(*journal, batch_of(1));
    // Closing flushes the -wal file, then the main file.
    disk.fail_at(DiskFault::flush_error, 2, false);
  }
  CHECK(disk.has_failed());
  CHECK(logged == std::vector<std::string>{"journal.close"});
  CHECK(std::filesystem::file_size(file.string() + "-wal") > 0);
  CHECK(documents(*open_journal(file)).count("1") == 1);
}

namespace {

/// A limit of the operating system, for a while.
class Limit {
 public:
  Limit(int resource, rlim_t value) : resource_(resource) {
    REQUIRE(::getrlimit(static_cast<__rlimit_resource>(resource_), &before_) == 0);
    rlimit now = before_;
    now.rlim_cur = value;
    REQUIRE(::setrlimit(static_cast<__rlimit_resource>(resource_), &now) == 0);
  }
  ~Limit() { ::setrlimit(static_cast<__rlimit_resource>(resource_), &before_); }
  Limit(const Limit &) = delete;
  Limit &operator=(const Limit &) = delete;

 private:
  int resource_;
  rlimit before_{};
};

}  // namespace

TEST_CASE("a batch that the operating system does not take is kept when it is tried again") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "journal.sqlite";
  const std::string large(1U << 20, 'x');
  {
    const auto journal = open_journal(file);
    commit(*journal, {{"t", "a", "1"}});
    auto *const before = ::signal(SIGXFSZ, SIG_IGN);
    std::optional<Error> refused;
    {
      const Limit limit(RLIMIT_FSIZE, 256U << 10);
      refused = error_of([&] { commit(*journal, {{"t", "b", large}, {"t", "a", "2"}}); });
    }
    ::signal(SIGXFSZ, before);
    CHECK(refused->code() == ErrorCode::unavailable);
    CHECK(mentions(*refused, "File too large"));
    CHECK(documents(*journal) == Documents{{"a", "1"}});
    commit(*journal, {{"t", "b", large}, {"t", "a", "2"}});
    commit(*journal, {{"t", "c", "3"}});
  }
  CHECK(documents(*open_journal(file)) == Documents{{"a", "2"}, {"b", large}, {"c", "3"}});
}

TEST_CASE("without file descriptors an open journal goes on, and opening says why it cannot") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "journal.sqlite";
  const std::filesystem::path other = folder.path() / "other.sqlite";
  open_journal(other);
  const auto journal = open_journal(file);
  std::optional<Error> refused;
  {
    const Limit limit(RLIMIT_NOFILE, 3);
    commit(*journal, {{"t", "a", std::string(1U << 20, 'x')}});
    refused = error_of([&] { open_journal(other); });
  }
  CHECK(refused->code() == ErrorCode::unavailable);
  CHECK(mentions(*refused, "Too many open files"));
  CHECK(mentions(*refused, "ulimit"));
  CHECK(documents(*journal).size() == 1);
  CHECK(documents(*open_journal(other)).empty());
}
