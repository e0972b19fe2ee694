#include <map>
#include <thread>
#include <vector>

#include "parsyn/journal.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

std::shared_ptr<Journal> make_journal(const std::string &backend) {
  REQUIRE(backend == "memory");
  return make_memory_journal();
}

void commit(Journal &journal, const std::vector<JournalWrite> &batch) { journal.commit(batch); }

using Documents = std::vector<std::pair<std::string, std::string>>;

Documents documents(const Journal &journal, std::string_view table) {
  Documents found;
  journal.for_each(
      table, [&](std::string_view key, std::string_view document) { found.emplace_back(key, document); });
  return found;
}

}  // namespace

TEST_CASE("a table's documents are visited in key order") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  commit(*journal, {{"jobs", "2", "b"}, {"jobs", "10", "c"}, {"workers", "1", "w"}, {"jobs", "1", "a"}});
  CHECK(documents(*journal, "jobs") == Documents{{"1", "a"}, {"10", "c"}, {"2", "b"}});
  CHECK(documents(*journal, "workers") == Documents{{"1", "w"}});
  CHECK(documents(*journal, "rounds").empty());
}

TEST_CASE("a write replaces the document of its key, and one without a document removes it") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  commit(*journal, {{"jobs", "1", "old"}, {"jobs", "2", "gone"}});
  commit(*journal, {{"jobs", "1", "new"}, {"jobs", "2", std::nullopt}, {"jobs", "never", std::nullopt}});
  CHECK(documents(*journal, "jobs") == Documents{{"1", "new"}});
}

TEST_CASE("writes of one batch take effect in their order") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  commit(*journal, {{"t", "a", "1"},
                    {"t", "a", "2"},
                    {"t", "b", "1"},
                    {"t", "b", std::nullopt},
                    {"t", "c", std::nullopt},
                    {"t", "c", "3"}});
  CHECK(documents(*journal, "t") == Documents{{"a", "2"}, {"c", "3"}});
}

TEST_CASE("nothing of a refused batch is kept") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  commit(*journal, {{"jobs", "1", "a"}});
  CHECK(error_of([&] {
          commit(*journal, {{"jobs", "1", "b"}, {"jobs", "2", "c"}, {"jobs", "", "d"}});
        }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] {
          commit(*journal, {{"jobs", "1", std::nullopt}, {"", "2", "c"}});
        }).code() == ErrorCode::invalid_argument);
  CHECK(documents(*journal, "jobs") == Documents{{"1", "a"}});
}

TEST_CASE("an empty batch changes nothing, and an empty document is a document") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  commit(*journal, {});
  commit(*journal, {{"t", std::string("a\0b", 3), ""}});
  CHECK(documents(*journal, "t") == Documents{{std::string("a\0b", 3), ""}});
}

TEST_CASE("an exception of the visitor passes through and leaves the journal usable") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  commit(*journal, {{"t", "a", "1"}});
  CHECK_THROWS_AS(journal->for_each("t", [](std::string_view, std::string_view) { throw 7; }), int);
  commit(*journal, {{"t", "b", "2"}});
  CHECK(documents(*journal, "t").size() == 2);
}

TEST_CASE("batches of several threads take effect one after the other") {
  const auto journal = make_journal(GENERATE(as<std::string>{}, "memory"));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const std::string own = std::to_string(thread);
      for (int turn = 0; turn < 200; ++turn) {
        commit(
            *journal,
            {{"t", "shared-a", own}, {"t", own + "-" + std::to_string(turn), own}, {"t", "shared-b", own}});
        const Documents seen = documents(*journal, "t");
        std::map<std::string, std::string> by_key(seen.begin(), seen.end());
        // Both halves of a batch are always of one writer.
        if (by_key["shared-a"] != by_key["shared-b"]) commit(*journal, {{"torn", own, "x"}});
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(documents(*journal, "t").size() == 802);
  CHECK(documents(*journal, "torn").empty());
}
