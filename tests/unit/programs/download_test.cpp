// parsyn-job download: where the model is put, and which one it is.
#include "job/download.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/program.hpp"
#include "parsyn/coordinator.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/loopback_serving.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::programs;
using namespace parsyn::test;

namespace {

/// A coordinator with a job of one round, and a folder to download to.
struct Served {
  Served()
      : server(*small.coordinator, loopback_serving()),
        worker(ManualWorker::join(*small.coordinator)),
        job(small.coordinator->submit(small.config(1, 1)).id) {
    std::filesystem::create_directory(place("downloads"));
  }

  std::filesystem::path place(const std::string &name) const { return folder.path() / name; }

  Downloaded download(const std::filesystem::path &output, const std::string &round = {},
                      bool force = true) const {
    ClientOptions options;
    options.connection.url = server.url();
    options.token_file = folder.file("token", kOperatorToken);
    std::filesystem::permissions(options.token_file, std::filesystem::perms::owner_all);
    RestClient client(options);
    return download_model(client, {job, round, output, force});
  }

  std::vector<std::string> names_in_downloads() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(place("downloads")))
      names.push_back(entry.path().filename());
    return names;
  }

  TemporaryFolder folder;
  SmallJob small;
  CoordinatorServer server;
  ManualWorker worker;
  Id job;
};

std::string sha256_of(const std::filesystem::path &file) {
  return system::sha256_hex(system::FileSource(file));
}

}  // namespace

TEST_CASE("a download takes the place of a file only when it is told to") {
  const Served served;
  const auto file = served.place("downloads/model");
  served.folder.file("downloads/model", "an older one");
  const std::string before = sha256_of(file);
  const Error error = error_of([&] { served.download(file, {}, false); });
  CHECK(error.code() == ErrorCode::conflict);
  CHECK(mentions(error, "--force"));
  CHECK(served.names_in_downloads() == std::vector<std::string>{"model"});
  CHECK(sha256_of(file) == before);
  const Downloaded model = served.download(file);
  CHECK(model.sha256 == sha256_of(file));
  CHECK(sha256_of(file) != before);
  CHECK(served.download(served.place("downloads/new"), {}, false).sha256 == model.sha256);
}

TEST_CASE("a folder, a pipe and a link to one of them are refused before the first byte") {
  const Served served;
  const auto output = served.place("downloads/output");
  const auto other = served.place("other");
  const bool is_pipe = GENERATE(true, false);
  const bool is_linked = GENERATE(true, false);
  CAPTURE(is_pipe, is_linked);
  const auto made = is_linked ? other : output;
  if (is_pipe) {
    REQUIRE(::mkfifo(made.c_str(), 0600) == 0);
  } else {
    std::filesystem::create_directory(made);
  }
  if (is_linked) std::filesystem::create_symlink(other, output);

  const auto before = std::filesystem::symlink_status(output).type();
  CHECK_THROWS_AS(served.download(output), WrongUsage);
  CHECK(std::filesystem::symlink_status(output).type() == before);
  CHECK(served.names_in_downloads() == std::vector<std::string>{"output"});
  CHECK(std::filesystem::exists(made));
}

TEST_CASE("through a symbolic link the file that it leads to is written") {
  const Served served;
  const auto link = served.place("downloads/link");
  const bool is_there = GENERATE(true, false);
  if (is_there) served.folder.file("target", "an older one");
  std::filesystem::create_symlink("../second", link);
  std::filesystem::create_symlink(served.place("target"), served.place("second"));

  const Downloaded model = served.download(link);
  CHECK(std::filesystem::is_symlink(std::filesystem::symlink_status(link)));
  CHECK(std::filesystem::is_symlink(std::filesystem::symlink_status(served.place("second"))));
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(served.place("target"))));
  CHECK(sha256_of(served.place("target")) == model.sha256);
  CHECK(served.names_in_downloads() == std::vector<std::string>{"link"});
}

TEST_CASE("links in a circle are refused") {
  const Served served;
  std::filesystem::create_symlink("b", served.place("downloads/a"));
  std::filesystem::create_symlink("a", served.place("downloads/b"));
  CHECK_THROWS_AS(served.download(served.place("downloads/a")), WrongUsage);
}

TEST_CASE("a download says after which round the job has this model") {
  Served served;
  const auto file = served.place("downloads/model");
  CHECK(round_text(served.download(file)) == "0, the initial model: no round has completed");

  served.worker.train(served.worker.task(), constant(1));
  served.small.ended(served.job);
  CHECK(round_text(served.download(file)) == "1");
  CHECK(round_text(served.download(file, "1")) == "1");
  CHECK(round_text(served.download(file, "0")) == "0, the initial model");
}
