// A writer that is killed at random moments.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "journal/sqlite_journal.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "unit/journal/documents.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// Two documents of each batch tell whether it is there as a whole.
std::vector<JournalWrite> batch_of(int number) {
  const std::string text(number % 5 == 0 ? 40'000 : 200, static_cast<char>('a' + number % 26));
  const std::string key = std::to_string(number);
  return {{"first", key, text}, {"t", "last", key}, {"second", key, text}};
}

int last_of(const Journal &journal) {
  const Documents found = documents(journal);
  return found.empty() ? 0 : std::stoi(found.at("last"));
}

/// The child: goes on from what is there, and says the number of each batch that was acknowledged.
[[noreturn]] void write_until_killed(const std::filesystem::path &file, int out) {
  try {
    const auto journal = journal::open_sqlite_journal({file, {}, {}}, 16);
    for (int number = last_of(*journal) + 1;; ++number) {
      journal->commit(batch_of(number));
      if (::write(out, &number, sizeof number) != sizeof number) ::_exit(4);
    }
  } catch (...) {
    ::_exit(3);
  }
}

bool read_number(int in, int &number) { return ::read(in, &number, sizeof number) == sizeof number; }

void spin(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

TEST_CASE("after kill -9 at any moment all acknowledged batches are there, and none by half") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "state" / "journal.sqlite";
  std::mt19937 random(20'240'501);
  int acknowledged = 0;
  int kills_after_an_answer = 0;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(file, ends[1]);
    }
    ::close(ends[1]);
    const unsigned answers = random() % 25;
    int number = 0;
    for (unsigned i = 0; i < answers && read_number(ends[0], number); ++i) acknowledged = number;
    spin(std::chrono::microseconds(random() % 4'000));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    // What it still said before it died.
    while (read_number(ends[0], number)) acknowledged = number;
    ::close(ends[0]);
    if (acknowledged > 0) ++kills_after_an_answer;

    CAPTURE(round, acknowledged);
    if (!std::filesystem::exists(file)) {
      REQUIRE(acknowledged == 0);
      continue;
    }
    // On a copy at times, so that the next writer finds the files as the kill has left them.
    const auto journal = open_journal(round % 2 == 0 ? file : copy_of(file, folder.path() / "image"));
    const int last = last_of(*journal);
    REQUIRE((last == acknowledged || last == acknowledged + 1));
    Documents expected;
    for (int i = 1; i <= last; ++i) expected.emplace(std::to_string(i), *batch_of(i)[0].document);
    REQUIRE(documents(*journal, "first") == expected);
    REQUIRE(documents(*journal, "second") == expected);
    acknowledged = last;
  }
  CHECK(kills_after_an_answer > 10);
  for (const auto &entry : std::filesystem::directory_iterator(file.parent_path())) {
    CHECK(entry.path().filename().string().find("parsyn-tmp") == std::string::npos);
  }
}
