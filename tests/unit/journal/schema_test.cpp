// How files of an older parsyn become files of this one.
#include "journal/sqlite_schema.hpp"

#include <filesystem>
#include <vector>

#include "parsyn/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "unit/journal/documents.hpp"

using namespace parsyn;
using namespace parsyn::test;
using namespace parsyn::journal;

namespace {

/// As a parsyn of the future has them.
std::vector<const char *> steps_and(const char *further) {
  std::vector<const char *> steps(schema_steps().begin(), schema_steps().end());
  steps.push_back(further);
  return steps;
}

}  // namespace

TEST_CASE("an older file takes the steps that it lacks, and keeps what it holds") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "journal.sqlite").string();
  commit(*open_journal(file), {{"t", "a", "1"}});
  {
    const Connection connection(file, {}, false);
    const std::string version = std::to_string(schema_steps().size());
    CHECK(connection.ask("PRAGMA user_version") == version);
    bring_up_to_date(connection, steps_and("ALTER TABLE documents ADD COLUMN note TEXT NOT NULL DEFAULT 'n';"
                                           "UPDATE documents SET document = document || '!';"));
    CHECK(connection.ask("PRAGMA user_version") == std::to_string(schema_steps().size() + 1));
    CHECK(connection.ask("SELECT document || note FROM documents") == "1!n");
    // Once.
    bring_up_to_date(connection, steps_and("DROP TABLE documents"));
    CHECK(connection.ask("SELECT count(*) FROM documents") == "1");
  }
  CHECK(error_of([&] { open_journal(file); }).code() == ErrorCode::unsupported);
}

TEST_CASE("a file of ours without a version gets all steps") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "journal.sqlite").string();
  {
    const Connection connection(file, {}, true);
    connection.run(("PRAGMA application_id=" + std::to_string(kApplicationId)).c_str());
  }
  const auto journal = open_journal(file);
  commit(*journal, {{"t", "a", "1"}});
  CHECK(documents(*journal) == Documents{{"a", "1"}});
}

TEST_CASE("a step that fails leaves the file as it was") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "journal.sqlite").string();
  commit(*open_journal(file), {{"t", "a", "1"}});
  {
    const Connection connection(file, {}, false);
    CHECK_THROWS_AS(
        bring_up_to_date(connection, steps_and("DELETE FROM documents; CREATE TABLE documents(a);")),
        SqliteFailure);
    CHECK(connection.ask("SELECT count(*) FROM documents") == "1");
  }
  CHECK(documents(*open_journal(file)) == Documents{{"a", "1"}});
}
