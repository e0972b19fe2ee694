#include "worker/object_cache.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "parsyn/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;
using parsyn::worker::ObjectCache;

namespace {

/// An object of 100 bytes whose content is known by one letter.
std::string content(char letter) { return std::string(100, letter); }
ObjectRef object(char letter) {
  ObjectRef ref;
  ref.key = std::string(1, letter);
  ref.sha256 = system::sha256_hex(content(letter));
  ref.bytes = 100;
  return ref;
}

/// A cache whose uses lie an hour apart, from long ago to now.
class Fixture {
 public:
  std::filesystem::path path(char letter) const { return folder.path() / object(letter).sha256; }
  bool has(char letter) const { return std::filesystem::exists(path(letter)); }
  void put(char letter, int hours_ago) {
    system::write_text_file(path(letter), content(letter));
    std::filesystem::last_write_time(
        path(letter), std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
  ObjectCache cache(std::uint64_t bytes_max) {
    return {folder.path(), bytes_max, [this](const ObjectRef &ref, const std::filesystem::path &file) {
              downloaded += ref.key;
              if (fails) throw Error(ErrorCode::unavailable, "no line");
              system::write_text_file(file, content(ref.key[0]));
            }};
  }

  TemporaryFolder folder;
  std::string downloaded;
  bool fails = false;
};

}  // namespace

TEST_CASE("the cache makes room for a new object by what was used longest ago") {
  Fixture fixture;
  fixture.put('a', 3);
  fixture.put('b', 2);
  fixture.put('c', 1);
  ObjectCache cache = fixture.cache(300);
  cache.fetch(object('a'));  // there: not downloaded, and used now
  CHECK(fixture.downloaded.empty());
  CHECK(system::read_text_file(cache.fetch(object('d')), 1000) == content('d'));
  CHECK(fixture.downloaded == "d");
  CHECK(fixture.has('a'));
  CHECK_FALSE(fixture.has('b'));
  CHECK(fixture.has('c'));
}

TEST_CASE("what the task uses stays, even over the bound") {
  Fixture fixture;
  fixture.put('a', 3);
  fixture.put('b', 2);
  // A download of the task's that broke off is still to go on.
  const auto part = fixture.folder.path() / (object('e').sha256 + ".part");
  system::write_text_file(part, "half");
  ObjectCache cache = fixture.cache(300);
  cache.keep({object('a').sha256, object('d').sha256, object('e').sha256});
  cache.fetch(object('d'));
  CHECK(fixture.has('a'));
  CHECK_FALSE(fixture.has('b'));
  cache.fetch(object('f'));
  cache.fetch(object('g'));
  CHECK(fixture.has('a'));
  CHECK(fixture.has('d'));
  CHECK(fixture.has('f'));  // fetched since keep(): the same task's
  CHECK(std::filesystem::exists(part));
  cache.keep({});
  cache.fetch(object('h'));
  CHECK_FALSE(fixture.has('a'));
  CHECK(fixture.has('h'));
}

TEST_CASE("a cache that is over its bound at the start is cut to it") {
  Fixture fixture;
  fixture.put('a', 3);
  fixture.put('b', 2);
  fixture.put('c', 1);
  const ObjectCache cache = fixture.cache(150);
  CHECK_FALSE(fixture.has('a'));
  CHECK_FALSE(fixture.has('b'));
  CHECK(fixture.has('c'));
}

TEST_CASE("a cached object that has rotted is downloaded anew, and a failed download is told") {
  Fixture fixture;
  fixture.put('a', 1);
  system::write_text_file(fixture.path('a'), std::string(100, 'x'));
  ObjectCache cache = fixture.cache(1000);
  CHECK(system::read_text_file(cache.fetch(object('a')), 1000) == content('a'));
  CHECK(fixture.downloaded == "a");
  fixture.fails = true;
  CHECK(error_of([&] { cache.fetch(object('b')); }).code() == ErrorCode::unavailable);
  CHECK_FALSE(fixture.has('b'));
}

TEST_CASE("an object whose digest is a path is refused, and nothing outside the cache is touched") {
  Fixture fixture;
  TemporaryFolder beside;
  const auto victim = beside.file("victim", "precious");
  ObjectCache cache = fixture.cache(1000);
  for (const std::string &name : {victim.string(), "../" + beside.path().filename().string() + "/victim",
                                  std::string(), std::string(".."), std::string(63, 'a'),
                                  std::string(65, 'a'), std::string(64, 'A'), std::string(64, 'g')}) {
    INFO(name);
    ObjectRef named = object('a');
    named.sha256 = name;
    CHECK(error_of([&] { cache.fetch(named); }).code() == ErrorCode::protocol);
  }
  CHECK(fixture.downloaded.empty());
  CHECK(system::read_text_file(victim, 100) == "precious");
}

TEST_CASE("the cache's folder is its owner's alone, also one that was open to others") {
  using std::filesystem::perms;
  Fixture fixture;
  std::filesystem::permissions(fixture.folder.path(), perms(0755));
  const ObjectCache cache = fixture.cache(1000);
  CHECK(std::filesystem::status(fixture.folder.path()).permissions() == perms(0700));
}

TEST_CASE("a cache whose folder is removed under it makes it anew") {
  Fixture fixture;
  ObjectCache cache = fixture.cache(300);
  cache.fetch(object('a'));
  std::filesystem::remove_all(fixture.folder.path());
  CHECK(system::read_text_file(cache.fetch(object('b')), 1000) == content('b'));
  CHECK((std::filesystem::status(fixture.folder.path()).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
}
