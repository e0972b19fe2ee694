#include "system/file_system.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"

using namespace parsyn;
using namespace parsyn::test;
namespace fs = std::filesystem;
using system::FileKind;

namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// No descriptor is left to open, as long as it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors &) = delete;
  NoDescriptors &operator=(const NoDescriptors &) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a file is made once, written, and read by position") {
  const TemporaryFolder folder;
  system::FileSystem &files = system::posix_file_system();
  const fs::path path = folder.path() / "a";
  const auto out = files.create(path, 0600);
  out->append(as_bytes("abc"));
  out->append(as_bytes("def"));
  out->flush();
  out->close();
  CHECK(error_of([&] { files.create(path, 0600); }).code() == ErrorCode::io);
  const auto in = files.open(path);
  CHECK(in->size() == 6);
  std::byte bytes[4];
  CHECK(in->read_at(4, bytes) == 2);
  CHECK(bytes[0] == std::byte{'e'});
  CHECK(in->read_at(6, bytes) == 0);
  const auto status = files.status(path);
  REQUIRE(status);
  CHECK(status->kind == FileKind::regular);
  CHECK(status->identity.bytes == 6);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(status->identity.inode == info.st_ino);
}

TEST_CASE("folders and names come and go, and the answer says whether they were there") {
  const TemporaryFolder folder;
  system::FileSystem &files = system::posix_file_system();
  const fs::path below = folder.path() / "below";
  CHECK(files.make_folder(below, 0700));
  CHECK(!files.make_folder(below, 0700));
  folder.file("plain", "x");
  fs::create_symlink("plain", folder.path() / "link");
  std::set<std::pair<std::string, FileKind>> entries;
  for (const auto &entry : files.list(folder.path())) entries.emplace(entry.name, entry.kind);
  CHECK(entries == std::set<std::pair<std::string, FileKind>>{
                       {"below", FileKind::folder}, {"link", FileKind::link}, {"plain", FileKind::regular}});
  CHECK(files.status(folder.path() / "link")->kind == FileKind::regular);
  CHECK(!files.status(folder.path() / "absent"));
  CHECK(!files.status(folder.path() / "plain" / "absent"));
  files.rename(folder.path() / "plain", below / "moved");
  CHECK(!files.remove_folder(below));
  CHECK(files.remove(below / "moved"));
  CHECK(!files.remove(below / "moved"));
  CHECK(files.remove_folder(below));
  CHECK(!files.remove_folder(below));
  CHECK(error_of([&] { files.list(below); }).code() == ErrorCode::not_found);
  CHECK(error_of([&] { files.flush_folder(below); }).code() == ErrorCode::not_found);
  CHECK(error_of([&] { files.open(folder.path()); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { files.open(below); }).code() == ErrorCode::not_found);
}

TEST_CASE("out of descriptors is unavailable, and says what to do") {
  const TemporaryFolder folder;
  system::FileSystem &files = system::posix_file_system();
  const fs::path path = folder.file("a", "x");
  // UndefinedBehaviorSanitizer needs a descriptor to look at a class for the first time.
  system::write_text_file(folder.path() / "before", "x");
  const NoDescriptors none;
  for (const Error &error :
       {error_of([&] { files.open(path); }), error_of([&] { files.create(folder.path() / "b", 0600); }),
        error_of([&] { files.flush_folder(folder.path()); }), error_of([&] { files.list(folder.path()); }),
        error_of([&] { system::write_text_file(folder.path() / "c", "x"); })}) {
    CHECK(error.code() == ErrorCode::unavailable);
    CHECK(mentions(error, folder.path().string()));
    CHECK(mentions(error, "Too many open files"));
    CHECK(mentions(error, "ulimit -n"));
  }
}

TEST_CASE("what a session names its unfinished files by stays the same, and what tells them apart does not") {
  system::FileSystem &files = system::posix_file_system();
  CHECK(files.session() == files.session());
  CHECK(files.session().size() >= 16);
  CHECK(files.unique() != files.unique());
  CHECK(files.unique().size() <= 8);
}

TEST_CASE("an atomic file is there after commit, and only then") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  {
    system::AtomicFile file(path);
    file.write(as_bytes("lost"));
    CHECK(!fs::exists(path));
  }
  CHECK(fs::is_empty(folder.path()));
  system::AtomicFile file(path, 0600);
  file.write(as_bytes("kept"));
  CHECK(!file.renamed());
  file.commit();
  CHECK(file.renamed());
  CHECK(file.bytes_written() == 4);
  CHECK(system::read_text_file(path, 100) == "kept");
  CHECK(error_of([&] { file.commit(); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { file.write(as_bytes("x")); }).code() == ErrorCode::conflict);
  CHECK(error_of([&] { system::read_text_file(path, 3); }).code() == ErrorCode::too_large);
}

TEST_CASE("folders are made with all those above them") {
  const TemporaryFolder folder;
  system::make_folders(folder.path() / "a/b/c/");
  system::make_folders(folder.path() / "a/b/c");
  system::make_folders("");
  CHECK(fs::is_directory(folder.path() / "a/b/c"));
  folder.file("plain", "x");
  CHECK(error_of([&] { system::make_folders(folder.path() / "plain"); }).code() == ErrorCode::io);
  CHECK(error_of([&] { system::make_folders(folder.path() / "plain/x"); }).code() == ErrorCode::io);
}

TEST_CASE("what is made is for its owner alone, unless other permissions are asked for") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  system::make_folders(folder.path() / "a/b");
  system::make_folders(folder.path() / "open", 0755);
  system::write_text_file(folder.path() / "a/file", "x");
  system::write_text_file(folder.path() / "a/open", "x", 0644);
  ::umask(before);
  const auto mode_of = [&](const char *name) {
    struct stat info {};
    REQUIRE(::stat((folder.path() / name).c_str(), &info) == 0);
    return info.st_mode & 0777;
  };
  CHECK(mode_of("a") == 0700);
  CHECK(mode_of("a/b") == 0700);
  CHECK(mode_of("open") == 0755);
  CHECK(mode_of("a/file") == 0600);
  CHECK(mode_of("a/open") == 0644);
}

TEST_CASE("a folder that is there is taken, also where the one above may not be opened") {
  const TemporaryFolder folder;
  const fs::path above = folder.path() / "above";
  system::make_folders(above / "mine");
  fs::permissions(above, fs::perms::owner_exec);
  // The root user may open it all the same.
  CHECK(system::posix_file_system().may_open_folder(above) == (::geteuid() == 0));
  system::make_folders(above / "mine");
  fs::permissions(above, fs::perms::owner_all);
  CHECK(system::posix_file_system().may_open_folder(above));
  CHECK(system::posix_file_system().may_open_folder(above / "absent"));
}

TEST_CASE("a new atomic file replaces nothing") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  system::AtomicFile first(path);
  first.write(as_bytes("first"));
  CHECK(first.commit_new());
  {
    system::AtomicFile second(path);
    second.write(as_bytes("second"));
    CHECK(!second.commit_new());
    CHECK(!second.renamed());
  }
  CHECK(system::read_text_file(path, 100) == "first");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("what a killed process has left of writing a file is removed, and nothing else") {
  const TemporaryFolder folder;
  folder.file("a", "x");
  folder.file("a.parsyn-tmp-0123-45", "hal");
  folder.file("a.parsyn-tmp-0123-67", "");
  folder.file("ab.parsyn-tmp-0123-45", "of another file");
  system::remove_unfinished(folder.path() / "a");
  system::remove_unfinished(folder.path() / "absent/a");
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder.path())) names.insert(entry.path().filename());
  CHECK(names == std::set<std::string>{"a", "ab.parsyn-tmp-0123-45"});
}
