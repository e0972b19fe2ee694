#include "journal/sqlite_schema.hpp"

#include <string>

namespace parsyn::journal {

std::span<const char *const> schema_steps() {
  static constexpr const char *kSteps[] = {
      // One table for all of the journal's: what a document means is its writer's business.
      "CREATE TABLE documents(name TEXT NOT NULL, key TEXT NOT NULL, document TEXT NOT NULL,"
      " PRIMARY KEY(name, key)) WITHOUT ROWID;",
  };
  return kSteps;
}

void bring_up_to_date(const Connection &connection, std::span<const char *const> steps) {
  const auto version = static_cast<std::size_t>(std::stoul(connection.ask("PRAGMA user_version")));
  if (version >= steps.size()) return;
  connection.run("BEGIN IMMEDIATE");
  try {
    for (std::size_t step = version; step < steps.size(); ++step) connection.run(steps[step]);
    connection.run(("PRAGMA application_id=" + std::to_string(kApplicationId)).c_str());
    connection.run(("PRAGMA user_version=" + std::to_string(steps.size())).c_str());
    connection.run("COMMIT");
  } catch (const SqliteFailure &) {
    // Some failures have rolled back by themselves.
    if (::sqlite3_get_autocommit(connection.get()) == 0) {
      ::sqlite3_exec(connection.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    throw;
  }
}

}  // namespace parsyn::journal
