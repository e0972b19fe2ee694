#include "system/folder_lock.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::system;
using namespace parsyn::test;

namespace {

const FolderLockOptions kOptions{.holder = "tester", .advice = "wait"};

}  // namespace

TEST_CASE("a folder has one holder at a time, and whoever comes second is told which") {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path(), kOptions);
    const Error error = error_of([&] { const FolderLock second(folder.path(), kOptions); });
    CHECK(error.code() == ErrorCode::conflict);
    CHECK(error.message() == "another tester (process " + std::to_string(::getpid()) + ") runs in " +
                                 folder.path().string() + ": stop it first, or wait");
  }
  const FolderLock again(folder.path(), kOptions);
  CHECK(error_of([&] { const FolderLock lock(folder.path() / "none", kOptions); }).code() ==
        ErrorCode::not_found);
}

TEST_CASE("a process that is killed has no lock any more") {
  const TemporaryFolder folder;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path(), kOptions);
    if (::write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(mentions(error_of([&] { const FolderLock lock(folder.path(), kOptions); }),
                 "process " + std::to_string(child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_NOTHROW(FolderLock(folder.path(), kOptions));
  ::close(ready[0]);
  ::close(ready[1]);
}
