#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <set>

#include "parsyn/object_store.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/objects.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;
namespace fs = std::filesystem;

namespace {

std::set<std::string> entries_below(const fs::path &folder) {
  std::set<std::string> names;
  for (const auto &entry : fs::recursive_directory_iterator(folder)) {
    names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

}  // namespace

TEST_CASE("objects outlive their store, and their digests are found again") {
  const TemporaryFolder folder;
  put(*make_file_store(folder.path()), "a/b", "abc");
  const auto again = make_file_store(folder.path());
  CHECK(again->list("") == std::vector<std::string>{"a/b"});
  CHECK(again->stat("a/b").sha256 == system::sha256_hex("abc"));
}

TEST_CASE("a digest is not remembered for a file that has changed") {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder.path());
  put(*store, "a", "abc");
  folder.file("a", "abd and more");
  CHECK(store->stat("a").sha256 == system::sha256_hex("abd and more"));
  CHECK(store->stat("a").bytes == 12);
}

TEST_CASE("stat of a committed object does not read it") {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder.path());
  const ObjectInfo stored = put(*store, "a", "abc");
  // Changed behind the store's back in a way that it cannot see: only what it remembers gives the first
  // digest.
  struct stat before {};
  REQUIRE(::stat((folder.path() / "a").c_str(), &before) == 0);
  folder.file("a", "xyz");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, (folder.path() / "a").c_str(), times, 0) == 0);
  CHECK(store->stat("a").sha256 == stored.sha256);
}

TEST_CASE("opening a store removes unfinished files of other sessions, and nothing else") {
  const TemporaryFolder folder;
  const std::string mark(system::kTemporaryMark);
  fs::create_directories(folder.path() / "jobs/1");
  folder.file("jobs/1/x" + mark + "00ff", "half");
  // A clock that was set back since: what is left over is known by its name.
  fs::last_write_time(folder.file("jobs/1/z" + mark + "0123456789abcdef-00ff00ff", "half"),
                      std::chrono::file_clock::now() + std::chrono::hours(1));
  folder.file("jobs/1/other.tmp", "foreign");
  folder.file("jobs/1/object", "whole");
  const auto store = make_file_store(folder.path());
  CHECK(entries_below(folder.path()) ==
        std::set<std::string>{"jobs", "jobs/1", "jobs/1/object", "jobs/1/other.tmp"});
  CHECK(store->list("") == std::vector<std::string>{"jobs/1/object", "jobs/1/other.tmp"});
}

TEST_CASE("opening a store leaves alone what another store of this process is writing") {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder.path());
  const auto writer = store->create("jobs/1/y");
  writer->write(as_bytes("being written"));
  const auto second = make_file_store(folder.path());
  writer->commit();
  CHECK(get(*second, "jobs/1/y") == "being written");
}

TEST_CASE("an unfinished object lies beside its place, and goes with its writer") {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder.path());
  {
    const auto writer = store->create("a/b");
    writer->write(as_bytes("x"));
    const auto names = entries_below(folder.path());
    CHECK(names.size() == 2);
    CHECK(names.rbegin()->starts_with("a/b" + std::string(system::kTemporaryMark)));
  }
  CHECK(entries_below(folder.path()).empty());
}

TEST_CASE("removing the last object of a folder removes the folder") {
  const TemporaryFolder folder;
  const auto store = make_file_store(folder.path());
  put(*store, "a/b/c", "x");
  put(*store, "a/d", "x");
  store->remove("a/b/c");
  CHECK(entries_below(folder.path()) == std::set<std::string>{"a", "a/d"});
}

TEST_CASE("a file store needs a folder") {
  const TemporaryFolder folder;
  folder.file("plain", "x");
  CHECK(error_of([] { make_file_store(""); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { make_file_store(folder.path() / "plain"); }).code() != ErrorCode::ok);
  CHECK(error_of([&] { make_file_store(folder.path() / "plain" / "below"); }).code() == ErrorCode::io);
}

TEST_CASE("weights and training data are for the owner alone, whatever the umask") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  put(*make_file_store(folder.path() / "state/store"), "a/b/c", "abc");
  ::umask(before);
  for (const auto &entry : fs::recursive_directory_iterator(folder.path())) {
    INFO(entry.path());
    const auto others = fs::perms::group_all | fs::perms::others_all;
    CHECK((entry.status().permissions() & others) == fs::perms::none);
  }
}
