#include <array>

#include "contract/storage/backends.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/objects.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("an object comes back as it was stored, with what sha256sum prints for it") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  const ObjectInfo stored = put(*store, "jobs/1/rounds/3/global.safetensors", "abc");
  CHECK(stored.key == "jobs/1/rounds/3/global.safetensors");
  CHECK(stored.bytes == 3);
  CHECK(stored.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(stored.etag == "\"ba7816bf8f01cfea414140de5dae2223\"");
  CHECK(get(*store, stored.key) == "abc");
  const ObjectInfo found = store->stat(stored.key);
  CHECK(found.key == stored.key);
  CHECK(found.bytes == stored.bytes);
  CHECK(found.sha256 == stored.sha256);
  CHECK(found.etag == stored.etag);
}

TEST_CASE("an object of zero bytes is an object") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  const ObjectInfo stored = store->create("empty")->commit();
  CHECK(stored.bytes == 0);
  CHECK(stored.sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(store->open("empty")->size() == 0);
  CHECK(store->list("") == std::vector<std::string>{"empty"});
}

TEST_CASE("a large object is written in pieces and read by position") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  std::string bytes((std::size_t{5} << 20) + 17, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
  const auto writer = store->create("large");
  for (std::size_t at = 0; at < bytes.size(); at += 99'991)
    writer->write(as_bytes(std::string_view(bytes).substr(at, 99'991)));
  const ObjectInfo stored = writer->commit();
  CHECK(stored.bytes == bytes.size());
  CHECK(stored.sha256 == system::sha256_hex(bytes));

  const auto source = store->open("large");
  REQUIRE(source->size() == bytes.size());
  std::string middle(1'000, '\0');
  source->read_at(4'194'300, std::as_writable_bytes(std::span(middle.data(), middle.size())));
  CHECK(middle == bytes.substr(4'194'300, 1'000));
  CHECK(text_of(*source) == bytes);
}

TEST_CASE("a read outside the object is refused") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  put(*store, "a", "abc");
  const auto source = store->open("a");
  std::array<std::byte, 2> out{};
  CHECK(error_of([&] { source->read_at(2, out); }).code() == ErrorCode::corrupt_data);
  CHECK(error_of([&] { source->read_at(UINT64_MAX, out); }).code() == ErrorCode::corrupt_data);
  source->read_at(3, std::span(out).first(0));
}

TEST_CASE("a second write replaces the object as a whole, and an open reader keeps the old bytes") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  put(*store, "a/b", "the old bytes");
  const auto reader = store->open("a/b");
  const ObjectInfo replaced = put(*store, "a/b", "new");
  CHECK(text_of(*reader) == "the old bytes");
  CHECK(get(*store, "a/b") == "new");
  CHECK(store->stat("a/b").sha256 == replaced.sha256);
  store->remove("a/b");
  CHECK(text_of(*reader) == "the old bytes");
}

TEST_CASE("an object is invisible before commit, and a writer without commit leaves nothing behind") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  {
    const auto writer = store->create("jobs/2/new");
    writer->write(as_bytes("half of it"));
    CHECK(store->list("").empty());
    CHECK(error_of([&] { store->open("jobs/2/new"); }).code() == ErrorCode::not_found);
    CHECK(error_of([&] { store->stat("jobs/2/new"); }).code() == ErrorCode::not_found);
  }
  CHECK(store->list("").empty());
  // A folder left behind would be in the way of an object of that name.
  put(*store, "jobs", "x");
}

TEST_CASE("an abandoned replacement leaves the object as it was") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  put(*store, "a", "kept");
  store->create("a")->write(as_bytes("lost"));
  CHECK(get(*store, "a") == "kept");
}

TEST_CASE("a writer commits once") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  const auto writer = store->create("a");
  writer->write(as_bytes("x"));
  writer->commit();
  CHECK(error_of([&] { writer->commit(); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { writer->write(as_bytes("y")); }).code() == ErrorCode::conflict);
  CHECK(get(*store, "a") == "x");
}

TEST_CASE("list gives the keys that start with a prefix, sorted") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  for (const char *key :
       {"jobs/2/b", "jobs/1/rounds/10/g", "jobs/1/rounds/9/g", "jobs/10/a", "jobs-1", "z", "jobs/1/a"}) {
    put(*store, key, key);
  }
  using Keys = std::vector<std::string>;
  CHECK(store->list("") ==
        Keys{"jobs-1", "jobs/1/a", "jobs/1/rounds/10/g", "jobs/1/rounds/9/g", "jobs/10/a", "jobs/2/b", "z"});
  CHECK(store->list("jobs/1") == Keys{"jobs/1/a", "jobs/1/rounds/10/g", "jobs/1/rounds/9/g", "jobs/10/a"});
  CHECK(store->list("jobs/1/") == Keys{"jobs/1/a", "jobs/1/rounds/10/g", "jobs/1/rounds/9/g"});
  CHECK(store->list("jobs/1/rounds/1") == Keys{"jobs/1/rounds/10/g"});
  CHECK(store->list("jobs/1/a") == Keys{"jobs/1/a"});
  CHECK(store->list("jobs/1/a/") == Keys{});
  CHECK(store->list("absent/folder/") == Keys{});
  CHECK(error_of([&] { store->list("../"); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { store->list("/etc"); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("more than a thousand objects are all listed") {
  // In memory only: what a file system flushes a thousand times would make this test slow.
  const StoreUnderTest store("memory");
  for (int i = 0; i < 1'005; ++i) put(*store, "rounds/" + std::to_string(i), "x");
  CHECK(store->list("rounds/").size() == 1'005);
}

TEST_CASE("a removed object is gone, and removing what is not there is fine") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  put(*store, "a/b/c", "x");
  store->remove("a/b/c");
  store->remove("a/b/c");
  store->remove("never/was");
  CHECK(error_of([&] { store->open("a/b/c"); }).code() == ErrorCode::not_found);
  CHECK(error_of([&] { store->stat("a/b/c"); }).code() == ErrorCode::not_found);
  CHECK(store->list("").empty());
}

TEST_CASE("a key is not also the folder of others") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  put(*store, "a/b", "x");
  CHECK(error_of([&] { put(*store, "a", "y"); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { put(*store, "a/b/c", "y"); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { store->open("a"); }).code() == ErrorCode::not_found);
  CHECK(error_of([&] { store->open("a/b/c"); }).code() == ErrorCode::not_found);
  store->remove("a");
  CHECK(get(*store, "a/b") == "x");
}

TEST_CASE("an invalid key is refused by every method, with what is wrong") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  using namespace std::string_literals;
  const std::string long_segment(201, 'a');
  std::string long_key = "a";
  while (long_key.size() <= 1'024) long_key += "/a";
  for (const std::string &key : {""s,
                                 "/"s,
                                 "/etc/passwd"s,
                                 "a/"s,
                                 "a//b"s,
                                 "."s,
                                 ".."s,
                                 "../x"s,
                                 "a/../b"s,
                                 "a/./b"s,
                                 "a/.."s,
                                 "%2e%2e/x"s,
                                 "a%2fb"s,
                                 "a\\b"s,
                                 "..\\x"s,
                                 "a\0b"s,
                                 "a b"s,
                                 "a:b"s,
                                 "x?a"s,
                                 "x#a"s,
                                 "caf\xc3\xa9"s,
                                 "\xff"s,
                                 "a\n"s,
                                 "~root"s,
                                 "x.parsyn-tmp-1"s,
                                 long_segment,
                                 long_key}) {
    CAPTURE(key);
    CHECK(error_of([&] { store->create(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->open(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->stat(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->remove(key); }).code() == ErrorCode::invalid_argument);
    CHECK(mentions(error_of([&] { check_object_key(key); }), "is not valid: "));
  }
  CHECK(store->list("").empty());
  for (const std::string &key : {"..."s, ".hidden"s, "a=b/c_d-e.f"s, long_segment.substr(1), "0"s}) {
    CAPTURE(key);
    put(*store, key, "x");
    CHECK(get(*store, key) == "x");
    store->remove(key);
  }
}

TEST_CASE("a location names a backend, and an unknown scheme is refused by name") {
  const TemporaryFolder folder;
  put(*open_object_store("file:" + folder.path().string() + "/s"), "a", "x");
  CHECK(get(*open_object_store("file://" + folder.path().string() + "/s"), "a") == "x");
  CHECK(open_object_store("memory:")->list("").empty());
  CHECK(mentions(error_of([] { open_object_store("s3://bucket/x"); }), "\"s3\""));
  for (const char *location :
       {"", "file:", "memory:x", "/plain/path", "file://host/x", "C:\\x", "http://x"}) {
    CAPTURE(location);
    CHECK(error_of([&] { open_object_store(location); }).code() == ErrorCode::invalid_argument);
  }
}
