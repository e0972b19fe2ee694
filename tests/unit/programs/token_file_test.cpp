// A token's file: there as a whole or not at all, whenever its writer dies.
#include "common/token_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/state_folder.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/simulated_disk.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"

using namespace parsyn;
using namespace parsyn::programs;
using namespace parsyn::test;
using Operation = SimulatedDisk::Operation;

namespace {

constexpr char kFile[] = "/state/operator.token";

/// Nothing: it is not there.
std::optional<std::string> content_of(SimulatedDisk &disk) {
  if (!disk.exists(kFile)) return std::nullopt;
  const system::FileSource source(kFile, disk);
  std::string text(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

SimulatedDisk &with_folder(SimulatedDisk &disk) {
  disk.make_folder("/state", system::kPrivateFolder);
  disk.flush_folder("/");
  return disk;
}

std::string read(const std::filesystem::path &file) {
  return read_token_file(file, [](const std::string &text) { FAIL(text); });
}

}  // namespace

TEST_CASE("whenever the power fails or the process is killed, a token is there as a whole or not at all") {
  const bool power = GENERATE(true, false);
  bool was_written = false;
  for (std::uint64_t step = 0; !was_written; ++step) {
    INFO("step " << step << (power ? ", power" : ", kill"));
    REQUIRE(step < 100);
    SimulatedDisk disk;
    std::uint64_t changes = 0;
    with_folder(disk).before_operation = [&](const SimulatedDisk::Call &call) {
      if (SimulatedDisk::is_change(call.operation) && changes++ == step) throw PowerLost{};
      return 0;
    };
    try {
      write_token_file(kFile, "secret", disk);
      was_written = true;
    } catch (const PowerLost &) {
    }
    disk.before_operation = {};
    core::Random random(step);
    power ? disk.crash(random) : disk.restart();
    const auto content = content_of(disk);
    CHECK((!content || *content == "secret\n"));
    if (was_written) CHECK(content);
    // The next start.
    if (!content) write_token_file(kFile, "second", disk);
    CHECK(content_of(disk) == (content ? "secret\n" : "second\n"));
  }
}

TEST_CASE("a disk that is full or broken leaves no token, and the next try makes one") {
  for (const Operation operation : {Operation::create, Operation::write, Operation::flush, Operation::close,
                                    Operation::rename, Operation::flush_folder}) {
    SimulatedDisk disk;
    with_folder(disk).before_operation = [&](const SimulatedDisk::Call &call) {
      return call.operation == operation ? ENOSPC : 0;
    };
    error_of([&] { write_token_file(kFile, "secret", disk); });
    disk.before_operation = {};
    CHECK(disk.files().empty());
    write_token_file(kFile, "second", disk);
    CHECK(content_of(disk) == "second\n");
  }
}

TEST_CASE("a token that is there is never replaced") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "token";
  write_token_file(file, "first");
  CHECK(error_of([&] { write_token_file(file, "second"); }).code() == ErrorCode::conflict);
  CHECK(read(file) == "first");
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("a coordinator's first start makes its token, also beside what a killed one has left") {
  const TemporaryFolder folder;
  const auto state = folder.path() / "deep/state";
  std::string token;
  {
    const StateFolder first(state);
    folder.file("deep/state/operator.token.parsyn-tmp-0123456789abcdef-01234567", "half of a tok");
    CHECK(first.make_token_if_missing());
    token = read(first.token_file());
    CHECK(token.size() == 64);
    CHECK(error_of([&] { StateFolder second(state); }).code() == ErrorCode::conflict);
  }
  const StateFolder again(state);
  CHECK_FALSE(again.make_token_if_missing());
  CHECK(read(again.token_file()) == token);
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(state))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"lock", "operator.token"});
  struct stat info {};
  REQUIRE(::stat(state.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("whether a token's file can be made is known before there is a token") {
  const TemporaryFolder folder;
  const auto in_folder = [&](const std::string &name) { return folder.path() / name; };
  const auto refused = [](const std::filesystem::path &file) {
    return error_of([&] { check_token_file_is_new(file); }).code();
  };
  check_token_file_is_new(in_folder("token"));
  check_token_file_is_new("token-of-a-test-in-the-current-folder");

  CHECK(refused(folder.file("taken", "secret")) == ErrorCode::conflict);
  CHECK(refused(folder.path()) == ErrorCode::conflict);
  std::filesystem::create_symlink("nothing", in_folder("dangling"));
  CHECK(refused(in_folder("dangling")) == ErrorCode::conflict);
  CHECK(refused(in_folder("no-such-folder/token")) == ErrorCode::io);
  CHECK(refused(in_folder("taken/token")) == ErrorCode::io);

  std::filesystem::create_directory(in_folder("closed"));
  std::filesystem::permissions(in_folder("closed"), std::filesystem::perms::owner_read);
  // The superuser may write there all the same.
  if (::access(in_folder("closed").c_str(), W_OK) != 0)
    CHECK(refused(in_folder("closed/token")) == ErrorCode::io);
}
