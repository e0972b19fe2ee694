#include "storage/leftovers.hpp"

#include <sys/stat.h>
#include <time.h>

#include <string>
#include <system_error>
#include <vector>

#include "system/files.hpp"

namespace parsyn::storage {
namespace {

/// The clock that stamps files is the coarse one; the finer one runs a few milliseconds ahead of it.
timespec coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now;
}

/// When this library was loaded: nothing that this process writes is older.
const timespec kLoaded = coarse_now();

bool is_older_than_process(const std::filesystem::path &path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  return info.st_mtim.tv_sec != kLoaded.tv_sec ? info.st_mtim.tv_sec < kLoaded.tv_sec
                                               : info.st_mtim.tv_nsec < kLoaded.tv_nsec;
}

}  // namespace

void sweep_leftovers(const std::filesystem::path &folder) {
  std::vector<std::filesystem::path> open_folders{folder};
  while (!open_folders.empty()) {
    const std::filesystem::path current = open_folders.back();
    open_folders.pop_back();
    std::error_code error;
    for (std::filesystem::directory_iterator at(current, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code ignored;
      if (at->is_directory(ignored) && !at->is_symlink(ignored)) {
        open_folders.push_back(at->path());
      } else if (at->path().filename().string().find(system::kTemporaryMark) != std::string::npos &&
                 is_older_than_process(at->path())) {
        std::filesystem::remove(at->path(), ignored);
      }
    }
  }
}

}  // namespace parsyn::storage
