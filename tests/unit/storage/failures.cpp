// Single failures of the disk, and the order of what is done to it.
#include <cerrno>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "storage/file_store.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/objects.hpp"
#include "support/simulated_disk.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;
using Operation = SimulatedDisk::Operation;

namespace {

/// Lets every operation of one kind fail.
void fail_all(SimulatedDisk &disk, Operation operation, int error) {
  disk.before_operation = [=](const SimulatedDisk::Call &call) {
    return call.operation == operation ? error : 0;
  };
}

/// The process of a store is killed when its object "a" is there, and nobody has flushed the folder.
void leave_unflushed(SimulatedDisk &disk) {
  {
    const auto store = storage::make_file_store("/store", disk);
    disk.before_operation = [](const SimulatedDisk::Call &call) {
      if (call.operation == Operation::flush_folder) throw PowerLost{};
      return 0;
    };
    CHECK_THROWS_AS(put(*store, "a", "x"), PowerLost);
  }
  disk.before_operation = nullptr;
  disk.restart();
}

std::vector<std::string> keys_after_crash(SimulatedDisk &disk, std::uint64_t seed) {
  core::Random random(seed);
  disk.crash(random);
  return storage::make_file_store("/store", disk)->list("");
}

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("bytes are flushed before they get their name, and each new name is flushed into its folder") {
  SimulatedDisk disk;
  const auto store = storage::make_file_store("/store", disk);
  std::vector<std::pair<Operation, std::string>> calls;
  disk.before_operation = [&](const SimulatedDisk::Call &call) {
    const bool empty_removed = call.operation == Operation::remove_folder;
    if (SimulatedDisk::is_change(call.operation) && !empty_removed) {
      std::string path = call.path.string();
      if (const auto mark = path.find(system::kTemporaryMark); mark != std::string::npos)
        path = path.substr(0, mark) + "~";
      calls.emplace_back(call.operation, path);
    }
    return 0;
  };
  put(*store, "a/b/c", "x");
  CHECK(calls == std::vector<std::pair<Operation, std::string>>{{Operation::make_folder, "/store/a"},
                                                                {Operation::flush_folder, "/store"},
                                                                {Operation::make_folder, "/store/a/b"},
                                                                {Operation::flush_folder, "/store/a"},
                                                                {Operation::create, "/store/a/b/c~"},
                                                                {Operation::write, "/store/a/b/c~"},
                                                                {Operation::flush, "/store/a/b/c~"},
                                                                {Operation::rename, "/store/a/b/c"},
                                                                {Operation::flush_folder, "/store/a/b"}});
}

TEST_CASE(
    "no space, no quota, no descriptors, no writing: unavailable, with the path, the reason and what to do") {
  struct Case {
    int error;
    const char *reason;
    const char *advice;
  };
  const Case one = GENERATE(as<Case>{}, Case{ENOSPC, "No space left on device", "free space"},
                            Case{EDQUOT, "Disk quota exceeded", "raise the quota"},
                            Case{EMFILE, "Too many open files", "ulimit -n"},
                            Case{ENFILE, "Too many open files", "fs.file-max"},
                            Case{EROFS, "Read-only file system", "mount the file system for writing"});
  const Operation operation =
      GENERATE(Operation::make_folder, Operation::create, Operation::write, Operation::rename);
  SimulatedDisk disk;
  const auto store = storage::make_file_store("/store", disk);
  fail_all(disk, operation, one.error);
  const Error error = error_of([&] { put(*store, "jobs/1", "abcdef"); });
  CAPTURE(error.message());
  CHECK(error.code() == ErrorCode::unavailable);
  CHECK(mentions(error, "/store/jobs"));
  CHECK(mentions(error, one.reason));
  CHECK(mentions(error, one.advice));
  CHECK(disk.files().empty());
  // Later all is well.
  disk.before_operation = nullptr;
  CHECK(disk.list("/store").empty());
  put(*store, "jobs/1", "abcdef");
  CHECK(keys_after_crash(disk, 1) == Keys{"jobs/1"});
}

TEST_CASE("a failed flush is io, whatever its reason, and nothing gets the name") {
  const int reason = GENERATE(EIO, ENOSPC, EDQUOT);
  const Operation operation = GENERATE(Operation::flush, Operation::close);
  SimulatedDisk disk;
  const auto store = storage::make_file_store("/store", disk);
  put(*store, "replaced", "old");
  fail_all(disk, operation, reason);
  const auto writer = store->create("a");
  writer->write(as_bytes("x"));
  const Error error = error_of([&] { writer->commit(); });
  CHECK(error.code() == ErrorCode::io);
  CHECK(mentions(error, "/store/a"));
  // It is not tried again: the second time the system may say that all is well.
  CHECK(error_of([&] { writer->commit(); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { put(*store, "replaced", "new"); }).code() == ErrorCode::io);
  disk.before_operation = nullptr;
  CHECK(store->list("") == Keys{"replaced"});
  CHECK(error_of([&] { store->stat("a"); }).code() == ErrorCode::not_found);
  CHECK(get(*store, "replaced") == "old");
  CHECK(keys_after_crash(disk, 1) == Keys{"replaced"});
}

TEST_CASE("an object whose folder could not be flushed is not vouched for until it is written anew") {
  SimulatedDisk disk;
  const auto store = storage::make_file_store("/store", disk);
  fail_all(disk, Operation::flush_folder, EIO);
  const Error failed = error_of([&] { put(*store, "a", "x"); });
  CHECK(failed.code() == ErrorCode::io);
  CHECK(mentions(failed, "cannot flush the folder /store"));
  disk.before_operation = nullptr;
  // It has its name, and the next flush would say that all is well.
  const Error refused = error_of([&] { store->stat("a"); });
  CHECK(refused.code() == ErrorCode::io);
  CHECK(mentions(refused, "store it again"));
  SECTION("written") {
    put(*store, "a", "y");
    CHECK(store->stat("a").sha256 == system::sha256_hex("y"));
    CHECK(keys_after_crash(disk, 1) == Keys{"a"});
  }
  SECTION("removed") {
    store->remove("a");
    CHECK(error_of([&] { store->stat("a"); }).code() == ErrorCode::not_found);
    CHECK(keys_after_crash(disk, 1).empty());
  }
}

TEST_CASE("a folder that could not be flushed is not taken for a durable one") {
  SimulatedDisk disk;
  const auto store = storage::make_file_store("/store", disk);
  fail_all(disk, Operation::flush_folder, EIO);
  CHECK(error_of([&] { store->create("jobs/1/a"); }).code() == ErrorCode::io);
  CHECK(disk.list("/store").empty());
  disk.before_operation = nullptr;
  put(*store, "jobs/1/a", "x");
  CHECK(keys_after_crash(disk, 1) == Keys{"jobs/1/a"});
}

TEST_CASE("stat flushes the folder of an object that it does not know before it vouches for it") {
  SimulatedDisk disk;
  leave_unflushed(disk);
  const auto store = storage::make_file_store("/store", disk);
  fail_all(disk, Operation::flush_folder, EIO);
  CHECK(error_of([&] { store->stat("a"); }).code() == ErrorCode::io);
  CHECK(error_of([&] { store->stat("a"); }).code() == ErrorCode::io);
  disk.before_operation = nullptr;
  // The next flush would say that all is well: it is written anew, as are its neighbours.
  CHECK(store->stat("a").sha256 == system::sha256_hex("x"));
  CHECK(get(*store, "a") == "x");
  CHECK(keys_after_crash(disk, 1) == Keys{"a"});
  CHECK(storage::make_file_store("/store", disk)->stat("a").bytes == 1);
}

TEST_CASE(
    "what lies beside an object whose folder could not be flushed is written anew before it is vouched for") {
  SimulatedDisk disk;
  leave_unflushed(disk);
  const auto store = storage::make_file_store("/store", disk);
  fail_all(disk, Operation::flush_folder, EIO);
  CHECK(error_of([&] { put(*store, "b", "y"); }).code() == ErrorCode::io);
  disk.before_operation = nullptr;
  CHECK(store->stat("a").sha256 == system::sha256_hex("x"));
  CHECK(keys_after_crash(disk, 1) == Keys{"a"});
}

TEST_CASE("folders that a crash has left empty are not in the way of an object") {
  SimulatedDisk disk;
  disk.make_folder("/store", 0700);
  disk.make_folder("/store/jobs", 0700);
  disk.make_folder("/store/jobs/1", 0700);
  const auto store = storage::make_file_store("/store", disk);
  CHECK(store->list("").empty());
  put(*store, "jobs", "x");
  CHECK(get(*store, "jobs") == "x");
}

TEST_CASE("opening a store removes what other sessions left unfinished, and not what this one is writing") {
  SimulatedDisk disk;
  const auto store = storage::make_file_store("/store", disk);
  put(*store, "jobs/whole", "x");
  {
    const auto left = store->create("jobs/left");
    left->write(as_bytes("half"));
    disk.lose_power();
  }
  disk.restart();
  REQUIRE(disk.files().size() == 2);
  const auto again = storage::make_file_store("/store", disk);
  CHECK(disk.files() == std::vector<std::string>{"/store/jobs/whole"});
  const auto writer = again->create("jobs/new");
  writer->write(as_bytes("half"));
  storage::make_file_store("/store", disk);
  writer->commit();
  CHECK(get(*again, "jobs/new") == "half");
}

TEST_CASE("a folder that is there is flushed into the one above, and a flush that fails is told") {
  SimulatedDisk disk;
  disk.make_folder("/store", system::kPrivateFolder);
  std::vector<std::string> flushed;
  int error = 0;
  disk.before_operation = [&](const SimulatedDisk::Call &call) {
    if (call.operation != Operation::flush_folder) return 0;
    flushed.push_back(call.path.string());
    return error;
  };
  system::make_folders("/store", system::kPrivateFolder, disk);
  CHECK(flushed == std::vector<std::string>{"/"});
  error = EIO;
  CHECK(error_of([&] { system::make_folders("/store", system::kPrivateFolder, disk); }).code() ==
        ErrorCode::io);
  CHECK(error_of([&] { storage::make_file_store("/store", disk); }).code() == ErrorCode::io);
}
