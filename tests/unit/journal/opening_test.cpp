// Which files are opened, which are refused and left as they are, and who keeps whom out.
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <thread>

#include "journal/sqlite_journal.hpp"
#include "parsyn/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "unit/journal/documents.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace fs = std::filesystem;

namespace {

std::string bytes_of(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Every file of a folder, with its bytes.
std::map<std::string, std::string> files_of(const fs::path &folder) {
  std::map<std::string, std::string> found;
  for (const auto &entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) found[entry.path().string()] = bytes_of(entry.path());
  }
  return found;
}

/// What opening it says; nothing in its folder has changed.
Error refusal_of(const fs::path &file) {
  const auto before = files_of(file.parent_path());
  const Error error = error_of([&] { open_journal(file); });
  CHECK(files_of(file.parent_path()) == before);
  CHECK(mentions(error, file.string()));
  return error;
}

void run_sql(const fs::path &file, const std::string &sql) {
  sqlite3 *database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  REQUIRE(sqlite3_close(database) == SQLITE_OK);
}

fs::path make_journal(const fs::path &file, int documents = 100) {
  const auto journal = open_journal(file);
  std::vector<JournalWrite> batch;
  for (int i = 0; i < documents; ++i)
    batch.push_back({"t", std::to_string(1'000 + i), std::string(500, 'x')});
  commit(*journal, batch);
  return file;
}

void overwrite(const fs::path &file, std::streamoff at, std::size_t count) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(at);
  const std::string junk(count, '\xA5');
  out.write(junk.data(), static_cast<std::streamsize>(junk.size()));
  REQUIRE(out.flush());
}

unsigned mode_of(const fs::path &path) { return static_cast<unsigned>(fs::status(path).permissions()); }

}  // namespace

TEST_CASE("a journal keeps its documents when it is closed and opened again, in one file") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "journal.sqlite";
  {
    const auto journal = open_journal(file);
    commit(*journal, {{"t", "a", "1"}, {"t", "b", "2"}});
    commit(*journal, {{"t", "a", std::nullopt}});
  }
  CHECK(files_of(folder.path()).size() == 1);
  CHECK(documents(*open_journal(file)) == Documents{{"b", "2"}});
}

TEST_CASE("folders and files are made for their owner alone") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  const auto journal = open_journal(folder.path() / "a" / "b" / "journal.sqlite");
  ::umask(before);
  commit(*journal, {{"t", "a", "1"}});
  CHECK(mode_of(folder.path() / "a") == 0700);
  CHECK(mode_of(folder.path() / "a" / "b") == 0700);
  CHECK(mode_of(folder.path() / "a" / "b" / "journal.sqlite") == 0600);
  CHECK(mode_of(folder.path() / "a" / "b" / "journal.sqlite-wal") == 0600);
  // No shared memory file, no leftovers.
  CHECK(files_of(folder.path()).size() == 2);
}

TEST_CASE("what is not a journal is refused and left as it is") {
  const TemporaryFolder folder;
  CHECK(mentions(refusal_of(folder.file("empty", "")), "is empty"));
  CHECK(mentions(refusal_of(folder.file("short", "hello")), "is not a journal of parsyn"));
  CHECK(refusal_of(folder.file("text", std::string(10'000, 'x'))).code() == ErrorCode::invalid_argument);

  const fs::path other = folder.path() / "other.sqlite";
  run_sql(other, "PRAGMA application_id=7; CREATE TABLE documents(a); PRAGMA journal_mode=WAL;");
  const Error foreign = refusal_of(other);
  CHECK(foreign.code() == ErrorCode::invalid_argument);
  CHECK(mentions(foreign, "another program"));

  fs::create_directory(folder.path() / "folder");
  CHECK(mentions(refusal_of(folder.path() / "folder"), "is a folder"));
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(mentions(refusal_of(folder.path() / "pipe"), "is not a regular file"));
  CHECK(error_of([&] { open_journal(""); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { open_journal(folder.path() / ""); }).code() == ErrorCode::invalid_argument);
  CHECK(mentions(error_of([&] { open_journal(folder.path() / "text" / "journal.sqlite"); }), "no folder"));
  CHECK(error_of([&] {
          make_sqlite_journal({folder.path() / "x", "no-such-vfs", {}});
        }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a journal of a newer parsyn is refused by its version and left as it is") {
  const TemporaryFolder folder;
  const fs::path file = make_journal(folder.path() / "journal.sqlite");
  run_sql(file, "PRAGMA user_version=42;");
  const Error error = refusal_of(file);
  CHECK(error.code() == ErrorCode::unsupported);
  CHECK(mentions(error, "version 42"));
  CHECK(mentions(error, "newer parsyn"));

  // The newer one was killed before the version came from the -wal file into the main file.
  run_sql(file, "PRAGMA user_version=1;");
  const fs::path image = folder.path() / "image";
  sqlite3 *database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, "PRAGMA user_version=43;", nullptr, nullptr, nullptr) == SQLITE_OK);
  const fs::path killed = copy_of(file, image);
  fs::remove(killed.string() + "-shm");
  sqlite3_close(database);
  CHECK(mentions(refusal_of(killed), "version 43"));
}

TEST_CASE("a journal that is cut short is refused and left as it is, with what to do") {
  const TemporaryFolder folder;
  const fs::path file = make_journal(folder.path() / "journal.sqlite");
  fs::resize_file(file, fs::file_size(file) / 2);
  const Error error = refusal_of(file);
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, "cut short"));
  CHECK(mentions(error, "backup"));
  CHECK(mentions(error, "VACUUM INTO"));
}

TEST_CASE("a -wal file without its journal is not taken for a new one's") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "journal.sqlite";
  const auto journal = open_journal(file);
  commit(*journal, {{"t", "a", "1"}});
  const fs::path killed = copy_of(file, folder.path() / "image");
  fs::remove(killed);
  CHECK(mentions(refusal_of(killed), "is missing"));
}

TEST_CASE("damage is found at the start after a crash, and named with what to do") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "journal.sqlite";
  make_journal(file);
  const auto journal = open_journal(file);
  commit(*journal, {{"t", "a", "1"}});
  const fs::path killed = copy_of(file, folder.path() / "image");
  overwrite(killed, 3 * 4096, 512);
  const Error error = refusal_of(killed);
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, "is damaged"));
  CHECK(mentions(error, "backup"));
}

TEST_CASE("damage that a read finds breaks the journal") {
  const TemporaryFolder folder;
  const fs::path file = make_journal(folder.path() / "journal.sqlite");
  overwrite(file, 5 * 4096, 512);
  const auto journal = open_journal(file);
  const Error found = error_of([&] { documents(*journal); });
  CHECK(found.code() == ErrorCode::corrupt_data);
  CHECK(journal->failure() == found.message());
  const Error refused = error_of([&] { commit(*journal, {{"u", "a", "1"}}); });
  CHECK(refused.code() == ErrorCode::io);
  CHECK(refused.message() == found.message());
}

TEST_CASE("a second coordinator is kept out at once, and told by whom") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "journal.sqlite";
  std::array<int, 2> go{};
  std::array<int, 2> answer{};
  REQUIRE(::pipe(go.data()) == 0);
  REQUIRE(::pipe(answer.data()) == 0);
  // Before the journal is opened: a child of later would have what SQLite remembers of it.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    char byte = 0;
    std::string text = "opened";
    if (::read(go[0], &byte, 1) != 1) ::_exit(1);
    try {
      open_journal(file);
    } catch (const std::exception &error) {
      text = error.what();
    }
    ::_exit(::write(answer[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  ::close(answer[1]);
  const auto journal = open_journal(file);
  commit(*journal, {{"t", "a", "1"}});
  const Error same_process = error_of([&] { open_journal(file); });
  CHECK(same_process.code() == ErrorCode::conflict);
  CHECK(mentions(same_process, file.string()));
  // That attempt has not let go of the first one's lock.
  REQUIRE(::write(go[1], "g", 1) == 1);
  std::string told;
  std::array<char, 512> buffer{};
  for (ssize_t got = 0; (got = ::read(answer[0], buffer.data(), buffer.size())) > 0;) {
    told.append(buffer.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  for (const int end : {go[0], go[1], answer[0]}) ::close(end);
  CHECK(told.find("is in use by another coordinator") != std::string::npos);
  if (fs::exists("/proc/locks")) {
    CHECK(told.find("(pid " + std::to_string(::getpid()) + ")") != std::string::npos);
    CHECK(mentions(same_process, "in this process"));
  }
  commit(*journal, {{"t", "b", "2"}});
  CHECK(documents(*journal).size() == 2);
}

TEST_CASE("of several that make the same journal at once, one gets it") {
  for (int round = 0; round < 10; ++round) {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "state" / "journal.sqlite";
    std::array<std::shared_ptr<Journal>, 4> journals;
    std::array<ErrorCode, 4> codes{};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < journals.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          journals[i] = open_journal(file);
        } catch (const Error &error) {
          codes[i] = error.code();
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    int opened = 0;
    for (std::size_t i = 0; i < journals.size(); ++i) {
      if (journals[i]) ++opened;
      CHECK(codes[i] == (journals[i] ? ErrorCode::ok : ErrorCode::conflict));
    }
    CHECK(opened == 1);
  }
}

TEST_CASE("a journal whose folder is moved takes batches again when it is back") {
  const TemporaryFolder folder;
  const fs::path state = folder.path() / "state";
  const auto journal = open_journal(state / "journal.sqlite");
  commit(*journal, {{"t", "a", "1"}});
  fs::rename(state, folder.path() / "elsewhere");
  const Error error = error_of([&] { commit(*journal, {{"t", "b", "2"}}); });
  CHECK(error.code() == ErrorCode::unavailable);
  CHECK(mentions(error, (state / "journal.sqlite").string()));
  CHECK(mentions(error, "moved or removed"));
  CHECK(journal->failure().empty());
  CHECK(documents(*journal) == Documents{{"a", "1"}});
  fs::rename(folder.path() / "elsewhere", state);
  commit(*journal, {{"t", "b", "2"}});
  CHECK(documents(*journal).size() == 2);
  // Without this file, batches would go where nobody finds them.
  fs::remove(state / "journal.sqlite-wal");
  CHECK(error_of([&] { commit(*journal, {{"t", "c", "3"}}); }).code() == ErrorCode::unavailable);
}

TEST_CASE("closing a journal that was removed leaves what has taken its place") {
  const TemporaryFolder folder;
  const fs::path state = folder.path() / "state";
  std::vector<std::string> logged;
  auto journal = make_sqlite_journal(
      {state / "journal.sqlite", {}, [&](const LogRecord &record) { logged.emplace_back(record.id); }});
  commit(*journal, {{"t", "a", "1"}});
  fs::remove_all(state);
  fs::create_directory(state);
  std::ofstream(state / "journal.sqlite") << "new";
  std::ofstream(state / "journal.sqlite-wal") << "new, too";
  CHECK(error_of([&] { commit(*journal, {{"t", "b", "2"}}); }).code() == ErrorCode::unavailable);
  const auto before = files_of(state);
  journal.reset();
  CHECK(files_of(state) == before);
  CHECK(logged.back() == "journal.close");
}

TEST_CASE("a journal that was not closed is checked and says so") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "journal.sqlite";
  const auto journal = open_journal(file);
  commit(*journal, {{"t", "a", "1"}});
  const fs::path killed = copy_of(file, folder.path() / "image");
  std::vector<std::string> logged;
  const auto log = [&](const LogRecord &record) { logged.emplace_back(record.id); };
  CHECK(documents(*make_sqlite_journal({killed, {}, log})) == Documents{{"a", "1"}});
  CHECK(std::count(logged.begin(), logged.end(), "journal.recovered") == 1);
  logged.clear();
  make_sqlite_journal({killed, {}, log});
  CHECK(std::count(logged.begin(), logged.end(), "journal.recovered") == 0);
}

TEST_CASE("the -wal file stays small") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "journal.sqlite";
  const auto journal = journal::open_sqlite_journal({file, {}, {}}, 50);
  for (int i = 0; i < 400; ++i) commit(*journal, {{"t", std::to_string(i % 10), std::string(6'000, 'x')}});
  CHECK(fs::file_size(file.string() + "-wal") < (60U * 4200));
}
