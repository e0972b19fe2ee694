#include <map>
#include <thread>
#include <vector>

#include "parsyn/journal.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// A journal of the kind that is named, and the folder that one of them needs.
class Backend {
 public:
  explicit Backend(const std::string &name) {
    REQUIRE((name == "memory" || name == "sqlite"));
    journal_ = name == "memory" ? make_memory_journal()
                                : make_sqlite_journal({folder_.path() / "state" / "journal.sqlite", {}, {}});
  }
  Journal &operator*() const { return *journal_; }
  Journal *operator->() const { return journal_.get(); }

 private:
  TemporaryFolder folder_;
  std::shared_ptr<Journal> journal_;
};

void commit(Journal &journal, const std::vector<JournalWrite> &batch) { journal.commit(batch); }

using Documents = std::vector<std::pair<std::string, std::string>>;

Documents documents(const Journal &journal, std::string_view table, const KeyRange &range = {}) {
  Documents found;
  journal.for_each(table, range, [&](std::string_view key, std::string_view document) {
    found.emplace_back(key, document);
  });
  return found;
}

std::vector<std::string> keys(const Journal &journal, std::string_view table, const KeyRange &range) {
  std::vector<std::string> found;
  for (const auto &[key, document] : documents(journal, table, range)) found.push_back(key);
  return found;
}

}  // namespace

TEST_CASE("a table's documents are visited in key order") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {{"jobs", "2", "b"}, {"jobs", "10", "c"}, {"workers", "1", "w"}, {"jobs", "1", "a"}});
  CHECK(documents(*journal, "jobs") == Documents{{"1", "a"}, {"10", "c"}, {"2", "b"}});
  CHECK(documents(*journal, "workers") == Documents{{"1", "w"}});
  CHECK(documents(*journal, "rounds").empty());
}

TEST_CASE("a write replaces the document of its key, and one without a document removes it") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {{"jobs", "1", "old"}, {"jobs", "2", "gone"}});
  commit(*journal, {{"jobs", "1", "new"}, {"jobs", "2", std::nullopt}, {"jobs", "never", std::nullopt}});
  CHECK(documents(*journal, "jobs") == Documents{{"1", "new"}});
}

TEST_CASE("writes of one batch take effect in their order") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {{"t", "a", "1"},
                    {"t", "a", "2"},
                    {"t", "b", "1"},
                    {"t", "b", std::nullopt},
                    {"t", "c", std::nullopt},
                    {"t", "c", "3"}});
  CHECK(documents(*journal, "t") == Documents{{"a", "2"}, {"c", "3"}});
}

TEST_CASE("nothing of a refused batch is kept") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
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
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {});
  commit(*journal, {{"t", std::string("a\0b", 3), ""}});
  CHECK(documents(*journal, "t") == Documents{{std::string("a\0b", 3), ""}});
}

TEST_CASE("an exception of the visitor passes through and leaves the journal usable") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {{"t", "a", "1"}});
  CHECK_THROWS_AS(journal->for_each("t", [](std::string_view, std::string_view) { throw 7; }), int);
  commit(*journal, {{"t", "b", "2"}});
  CHECK(documents(*journal, "t").size() == 2);
}

TEST_CASE("batches of several threads take effect one after the other") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
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

TEST_CASE("a range has its first key and not its last, in the order of bytes") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  const std::string high = "\xC3\xA9";
  commit(*journal, {{"t", "a", "1"},
                    {"t", "a/1", "1"},
                    {"t", "a/2", "1"},
                    {"t", "a0", "1"},
                    {"t", "B", "1"},
                    {"t", high, "1"},
                    {"u", "a/3", "1"}});
  using Keys = std::vector<std::string>;
  CHECK(keys(*journal, "t", {"a/", "a0"}) == Keys{"a/1", "a/2"});
  CHECK(keys(*journal, "t", {"a/1", "a/2"}) == Keys{"a/1"});
  CHECK(keys(*journal, "t", {"a/2", ""}) == Keys{"a/2", "a0", high});
  CHECK(keys(*journal, "t", {"", "a"}) == Keys{"B"});
  CHECK(keys(*journal, "t", {"b", ""}) == Keys{high});
  CHECK(keys(*journal, "t", {"a/2", "a/1"}).empty());
  CHECK(keys(*journal, "t", {}).size() == 6);
  CHECK(keys(*journal, "absent", {"a", "b"}).empty());
}

TEST_CASE("a table larger than one step is visited once and in order") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  std::vector<JournalWrite> batch;
  for (int i = 0; i < 2'500; ++i) batch.push_back({"many", std::to_string(10'000 + i), std::to_string(i)});
  for (int i = 0; i < 5; ++i) batch.push_back({"large", std::to_string(i), std::string(3U << 20, 'x')});
  commit(*journal, batch);
  const Documents many = documents(*journal, "many");
  REQUIRE(many.size() == 2'500);
  for (int i = 0; i < 2'500; ++i) {
    if (many[static_cast<std::size_t>(i)].second != std::to_string(i)) FAIL("out of order at " << i);
  }
  CHECK(keys(*journal, "many", {"10100", "12300"}).size() == 2'200);
  CHECK(keys(*journal, "large", {}) == std::vector<std::string>{"0", "1", "2", "3", "4"});
}

TEST_CASE("a visitor may use the journal") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {{"t", "a", "1"}, {"t", "b", "2"}});
  journal->for_each("t", [&](std::string_view key, std::string_view document) {
    commit(*journal,
           {{"copy", std::string(key), std::string(document)}, {"t", std::string(key), std::nullopt}});
  });
  CHECK(documents(*journal, "copy") == Documents{{"a", "1"}, {"b", "2"}});
  CHECK(documents(*journal, "t").empty());
}

TEST_CASE("a journal that works has no failure") {
  const Backend journal(GENERATE(as<std::string>{}, "memory", "sqlite"));
  commit(*journal, {{"t", "a", "1"}});
  error_of([&] { commit(*journal, {{"t", "", "1"}}); });
  CHECK(journal->failure().empty());
}
