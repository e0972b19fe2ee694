#include "storage/leftovers.hpp"

#include <string>
#include <vector>

#include "parsyn/error.hpp"
#include "system/files.hpp"

namespace parsyn::storage {
namespace {

bool is_leftover(const std::string &name, const std::string &session) {
  const std::size_t mark = name.find(system::kTemporaryMark);
  return mark != std::string::npos &&
         !std::string_view(name).substr(mark + system::kTemporaryMark.size()).starts_with(session);
}

}  // namespace

void sweep_leftovers(system::FileSystem &files, const std::filesystem::path &folder) {
  const std::string session = files.session();
  std::vector<std::filesystem::path> open_folders{folder};
  while (!open_folders.empty()) {
    const std::filesystem::path current = open_folders.back();
    open_folders.pop_back();
    try {
      for (const system::FolderEntry &entry : files.list(current)) {
        if (entry.kind == system::FileKind::folder) {
          open_folders.push_back(current / entry.name);
        } else if (entry.kind == system::FileKind::regular && is_leftover(entry.name, session)) {
          try {
            files.remove(current / entry.name);
          } catch (const Error &) {
          }
        }
      }
    } catch (const Error &) {
    }
  }
}

}  // namespace parsyn::storage
