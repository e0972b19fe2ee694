// Rounds of more workers than the process may have open files.
#include <dirent.h>
#include <sys/resource.h>

#include "support/catch.hpp"
#include "support/event_texts.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

unsigned open_files() {
  unsigned count = 0;
  DIR *folder = ::opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // ".", ".." and the folder itself
}

/// The process may have so many files more open than it has.
class FewMoreFiles {
 public:
  explicit FewMoreFiles(rlim_t more) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit lower = before_;
    lower.rlim_cur = open_files() + more;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
  }
  ~FewMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewMoreFiles(const FewMoreFiles &) = delete;
  FewMoreFiles &operator=(const FewMoreFiles &) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("an average of more updates than there are file descriptors for is the average") {
  constexpr std::size_t kWorkers = 80;
  const TemporaryFolder folder;
  CoordinatorOptions options;
  options.store = make_file_store(folder.path());
  SmallJob small(constant(0), kWorkers, options);
  std::vector<ManualWorker> workers = small.join(kWorkers);
  const Id job = small.coordinator->submit(small.config_for(workers, kWorkers)).id;
  std::vector<Report> reports;
  for (std::size_t i = 0; i < kWorkers; ++i)
    reports.push_back(workers[i].upload(workers[i].task(), constant(static_cast<float>(i))));

  // The reports are checked meanwhile, on a few threads.
  const FewMoreFiles limit(kWorkers - 20);
  for (std::size_t i = 0; i < kWorkers; ++i) CHECK(workers[i].transport().report(reports[i]).accepted);
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == static_cast<float>(kWorkers - 1) / 2);
  CHECK(event_texts(*small.coordinator, job, "storage_waits").empty());
}
