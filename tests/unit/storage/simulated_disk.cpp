// That the simulated disk loses what it should, and nothing else.
#include "support/simulated_disk.hpp"

#include <cerrno>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/objects.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

std::string text_of(SimulatedDisk &disk, const char *path) {
  const auto file = disk.open_file(path, false);
  std::string text(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

}  // namespace

TEST_CASE("bytes are read by position, zeros fill gaps, and a file can be cut") {
  SimulatedDisk disk;
  const auto file = disk.open_file("/db", true);
  CHECK(disk.exists("/db"));
  file->write_at(2, as_bytes("abc"));
  CHECK(text_of(disk, "/db") == std::string("\0\0abc", 5));
  file->truncate(3);
  CHECK(file->size() == 3);
  std::byte out[8];
  CHECK(file->read_at(1, out) == 2);
  CHECK(file->read_at(3, out) == 0);
  // A handle outlives its name.
  CHECK(disk.remove("/db"));
  CHECK(!disk.exists("/db"));
  CHECK(file->read_at(0, out) == 3);
  CHECK(error_of([&] { disk.open_file("/db", false); }).code() == ErrorCode::not_found);
}

TEST_CASE(
    "what was flushed outlives every crash, and what was not comes out whole, torn, empty or not at all") {
  std::set<std::string> kinds;
  const std::string old(1'024, 'o');
  const std::string fresh(1'024, 'n');
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SimulatedDisk disk;
    const auto kept = disk.open_file("/kept", true);
    kept->write_at(0, as_bytes(old));
    kept->flush();
    disk.flush_folder("/");
    kept->write_at(0, as_bytes(fresh));
    disk.open_file("/new", true)->write_at(0, as_bytes(fresh));
    disk.rename("/new", "/renamed");
    core::Random random(seed);
    disk.crash(random);
    CHECK_THROWS_AS(kept->size(), PowerLost);

    const std::string text = text_of(disk, "/kept");
    REQUIRE(text.size() == 1'024);
    // Sectors are whole.
    for (const std::string &sector : {text.substr(0, 512), text.substr(512)})
      REQUIRE((sector == std::string(512, 'o') || sector == std::string(512, 'n')));
    kinds.insert(text == old ? "old" : text == fresh ? "overwritten" : "half overwritten");
    REQUIRE(!(disk.exists("/new") && disk.exists("/renamed")));
    kinds.insert(disk.exists("/new") ? "created" : disk.exists("/renamed") ? "renamed" : "not created");
    if (disk.exists("/renamed")) {
      const std::string renamed = text_of(disk, "/renamed");
      kinds.insert(renamed == fresh ? "renamed whole" : renamed.empty() ? "renamed empty" : "renamed torn");
    }
  }
  CHECK(kinds == std::set<std::string>{"old", "overwritten", "half overwritten", "not created", "created",
                                       "renamed", "renamed whole", "renamed empty", "renamed torn"});
}

TEST_CASE("changes of a folder are kept in their order") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedDisk disk;
    for (const char *path : {"/a", "/b", "/c"}) disk.open_file(path, true);
    disk.remove("/a");
    core::Random random(seed);
    disk.crash(random);
    std::string names;
    for (const std::string &file : disk.files()) names += file;
    seen.insert(names);
  }
  CHECK(seen == std::set<std::string>{"", "/a", "/a/b", "/a/b/c", "/b/c"});
}

TEST_CASE("after a flush that failed, the next one lies") {
  SimulatedDisk disk;
  const auto file = disk.open_file("/a", true);
  disk.flush_folder("/");
  file->write_at(0, as_bytes("x"));
  disk.fail(disk.operations(), EIO);
  CHECK(error_of([&] { file->flush(); }).code() == ErrorCode::io);
  file->flush();
  CHECK(text_of(disk, "/a") == "x");
  core::Random random(1);
  disk.crash(random);
  CHECK(text_of(disk, "/a").empty());
}

TEST_CASE("a process that ends loses its handles, and no bytes") {
  SimulatedDisk disk;
  const auto file = disk.open_file("/a", true);
  file->write_at(0, as_bytes("x"));
  const std::string session = disk.session();
  disk.restart();
  CHECK_THROWS_AS(file->flush(), PowerLost);
  CHECK(text_of(disk, "/a") == "x");
  CHECK(disk.session() != session);
}

TEST_CASE("without power nothing works, until it is back") {
  SimulatedDisk disk;
  disk.before_operation = [](const SimulatedDisk::Call &call) {
    if (call.operation == SimulatedDisk::Operation::rename) throw PowerLost{};
    return 0;
  };
  disk.open_file("/a", true)->flush();
  disk.flush_folder("/");
  CHECK_THROWS_AS(disk.rename("/a", "/b"), PowerLost);
  CHECK_THROWS_AS(disk.exists("/a"), PowerLost);
  core::Random random(1);
  disk.crash(random);
  CHECK(disk.exists("/a"));
}
