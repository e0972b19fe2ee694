#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "parsyn/object_store.hpp"
#include "parsyn/safetensors.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/objects.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;
namespace fs = std::filesystem;

namespace {

std::set<fs::path> files_below(const fs::path &folder) {
  std::set<fs::path> files;
  for (const auto &entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.insert(entry.path());
  }
  return files;
}

bool is_unfinished(const fs::path &path) {
  return path.filename().string().find(".parsyn-tmp-") != std::string::npos;
}

dev_t device_of(const fs::path &path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_dev;
}

constexpr const char *kCurrent = "jobs/1/current.safetensors";

/// Tells another process of every write, so that it can choose between which of them to kill this one.
class TellingSink final : public ByteSink {
 public:
  TellingSink(ByteSink &below, int pipe) : below_(below), pipe_(pipe) {}
  void write(std::span<const std::byte> bytes) override {
    // In pieces, so that the end comes in the middle of a tensor too.
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), 16'384));
      below_.write(piece);
      tell();
      bytes = bytes.subspan(piece.size());
    }
  }
  void tell() const {
    if (::write(pipe_, ".", 1) != 1) ::_exit(1);
  }

 private:
  ByteSink &below_;
  int pipe_;
};

StateDict generation(float value) {
  return {{"a", make_f32_tensor({50'000}, std::vector<float>(50'000, value))},
          {"b", make_f32_tensor({100}, std::vector<float>(100, value))}};
}

/// Saves one generation after the other until it is killed.
[[noreturn]] void save_for_ever(const fs::path &folder, float first, int pipe) {
  try {
    const auto store = make_file_store(folder);
    for (float value = first;; ++value) {
      const auto writer = store->create(kCurrent);
      TellingSink sink(*writer, pipe);
      write_safetensors(generation(value), sink);
      writer->commit();
      sink.tell();
    }
  } catch (...) {
    ::_exit(2);
  }
}

/// Starts a saving process and kills it after it has told of `steps` writes.
void save_and_kill(const fs::path &folder, float first, int steps) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    save_for_ever(folder, first, ends[1]);
  }
  ::close(ends[1]);
  char step = 0;
  int told = 0;
  while (told < steps && ::read(ends[0], &step, 1) == 1) ++told;
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(ends[0]);
  REQUIRE(told == steps);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("fault 81: an unfinished file lies beside its target, on whatever file system that is") {
  std::vector<fs::path> parents{fs::temp_directory_path()};
  if (fs::is_directory("/dev/shm") && device_of("/dev/shm") != device_of(fs::temp_directory_path())) {
    parents.emplace_back("/dev/shm");
  }
  for (const fs::path &parent : parents) {
    const TemporaryFolder folder(parent);
    const auto store = make_file_store(folder.path());
    const auto writer = store->create("jobs/1/a");
    writer->write(as_bytes("abc"));
    const auto during = files_below(folder.path());
    REQUIRE(during.size() == 1);
    CHECK(during.begin()->parent_path() == folder.path() / "jobs/1");
    CHECK(device_of(*during.begin()) == device_of(folder.path()));
    writer->commit();
    CHECK(get(*store, "jobs/1/a") == "abc");
    CHECK(files_below(folder.path()) == std::set<fs::path>{folder.path() / "jobs/1/a"});
  }
}

TEST_CASE("fault 83: after kill -9 during a save the current file always loads") {
  const TemporaryFolder folder;
  put(*make_file_store(folder.path()), "before", "x");
  float newest = 0;
  int unfinished = 0;
  for (int trial = 0; trial < 50; ++trial) {
    // 14 steps or so are one save: the kills fall on all parts of it.
    save_and_kill(folder.path(), newest + 1, 20 + trial);
    const auto store = make_file_store(folder.path());
    const StateDict loaded = read_safetensors(*store->open(kCurrent));
    const float value = f32_elements(loaded.at("b")).front();
    REQUIRE(value > newest);
    REQUIRE(loaded == generation(value));
    REQUIRE(store->list("") == std::vector<std::string>{"before", kCurrent});
    newest = value;
    for (const fs::path &file : files_below(folder.path())) {
      if (!is_unfinished(file)) continue;
      ++unfinished;
      fs::remove(file);
    }
  }
  // Else every kill would have fallen between two saves, and nothing would have been tested.
  CHECK(unfinished > 0);
}

TEST_CASE("fault 85: a store's folder may have any name") {
  const TemporaryFolder folder;
  const std::string composed = "caf\xC3\xA9";
  const std::string decomposed = "cafe\xCC\x81";
  const std::vector<std::string> names{"\xD0\xBC\xD0\xBE\xD0\xB4\xD0\xB5\xD0\xBB\xD1\x8C",
                                       "\xE6\xA8\xA1\xE5\x9E\x8B",
                                       "\xF0\x9F\xA6\x99",
                                       "a space",
                                       composed,
                                       decomposed,
                                       " \xF0\x9F\x98\x80 " + composed + " " + decomposed};
  for (const std::string &name : names) {
    put(*make_file_store(folder.path() / name), "a/b", name);
    put(*open_object_store("file:" + (folder.path() / name).string()), "a/c", name);
  }
  for (const std::string &name : names) {
    const auto store = make_file_store(folder.path() / name);
    CHECK(get(*store, "a/b") == name);
    CHECK(store->list("") == std::vector<std::string>{"a/b", "a/c"});
  }
  CHECK(composed != decomposed);
}

TEST_CASE("fault 87: no key and no location leads out of the store") {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  folder.file("secret", "secret");
  const auto store = make_file_store(folder.path() / "store");
  const auto before = files_below(folder.path());
  for (const std::string &key :
       {"../secret"s, "%2e%2e%2fsecret"s, "%2e%2e/secret"s, "..\\secret"s, "x#/../../secret"s,
        "x?a=../../secret"s, "x;/../../secret"s, (folder.path() / "secret").string(), "x\0/../../secret"s,
        "../store/../secret"s, "a/../../secret"s}) {
    CAPTURE(key);
    CHECK(error_of([&] { store->open(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->stat(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->create(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->remove(key); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->list(key); }).code() == ErrorCode::invalid_argument);
  }
  const std::string root = "file:" + folder.path().string() + "/";
  for (const std::string &end :
       {"../x"s, "%2e%2e%2fx"s, "..\\x"s, "x#/../../y"s, "x?a=../../y"s, "x\0y"s, "a/.."s}) {
    CAPTURE(end);
    CHECK(error_of([&] { open_object_store(root + end); }).code() == ErrorCode::invalid_argument);
  }
  CHECK(files_below(folder.path()) == before);
}

TEST_CASE("fault 115: of 1,005 round objects none is overlooked, and a restart goes on from the newest") {
  constexpr std::uint32_t kRounds = 1'005;
  // Thousands of flushes, which memory makes short.
  const TemporaryFolder folder(fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path());
  CoordinatorOptions options;
  options.store = make_file_store(folder.path());
  options.journal = make_memory_journal();
  options.keep_rounds = kRounds + 1;
  SmallJob small(constant(0), 1, options);
  ManualWorker worker = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1, kRounds + 1)).id;
  for (std::uint32_t round = 1; round <= kRounds; ++round)
    REQUIRE(worker.train(worker.task(), constant(static_cast<float>(round))).accepted);
  const Task last = worker.task();

  small.coordinator.reset();
  options.store = make_file_store(folder.path());
  small.coordinator = make_coordinator(options);
  worker.reach(*small.coordinator);
  CHECK(small.value(job) == static_cast<float>(kRounds));
  std::size_t models = 0;
  for (const std::string &key : options.store->list("jobs/")) {
    if (key.find("/global-") != std::string::npos) ++models;
  }
  CHECK(models == kRounds);
  for (const std::uint32_t round : {1U, 999U, 1'000U, 1'001U, kRounds})
    CHECK(small.value(job, round) == static_cast<float>(round));
  const Task task = worker.task();
  CHECK(task.task_id == last.task_id);
  CHECK(task.round == kRounds + 1);
  CHECK(f32_elements(worker.weights(task).at("w")).at(0) == static_cast<float>(kRounds));
  CHECK(worker.train(task, constant(7)).accepted);
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.value(job) == 7.0F);
}
