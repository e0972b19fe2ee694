// What a journal holds, and its files as a crash would leave them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/journal.hpp"

namespace parsyn::test {

using Documents = std::map<std::string, std::string>;

inline Documents documents(const Journal &journal, std::string_view table = "t") {
  Documents found;
  journal.for_each(table,
                   [&](std::string_view key, std::string_view document) { found.emplace(key, document); });
  return found;
}

inline void commit(Journal &journal, const std::vector<JournalWrite> &batch) { journal.commit(batch); }

inline std::shared_ptr<Journal> open_journal(const std::filesystem::path &file) {
  return make_sqlite_journal({file, {}, {}});
}

/// The same files, with the bytes of this moment, in another folder.
inline std::filesystem::path copy_of(const std::filesystem::path &file, const std::filesystem::path &folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::copy(file.parent_path(), folder);
  return folder / file.filename();
}

}  // namespace parsyn::test
