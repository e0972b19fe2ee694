// parsyn-job events: all events so far, or a failure.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "job/event_follower.hpp"
#include "job/watch.hpp"
#include "parsyn/coordinator.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/loopback_serving.hpp"
#include "support/raw_socket.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"

using namespace parsyn;
using namespace parsyn::programs;
using namespace parsyn::test;

namespace {

/// What is written to the standard output while it lives.
class CapturedOutput {
 public:
  explicit CapturedOutput(const TemporaryFolder &folder) : file_(folder.file("output", "")) {
    std::fflush(stdout);
    former_ = ::dup(STDOUT_FILENO);
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    ::dup2(descriptor, STDOUT_FILENO);
    ::close(descriptor);
  }
  ~CapturedOutput() {
    std::fflush(stdout);
    ::dup2(former_, STDOUT_FILENO);
    ::close(former_);
  }
  CapturedOutput(const CapturedOutput &) = delete;
  CapturedOutput &operator=(const CapturedOutput &) = delete;
  std::string text() const { return system::read_text_file(file_, 1 << 20); }

 private:
  std::filesystem::path file_;
  int former_ = -1;
};

struct Outcome {
  int code = -1;
  std::string printed;
  std::string failure;
};

Outcome print(const std::string &url, std::uint64_t job) {
  const TemporaryFolder folder;
  ClientOptions options;
  options.connection.url = url;
  options.token_file = folder.file("token", kOperatorToken);
  std::filesystem::permissions(options.token_file, std::filesystem::perms::owner_all);
  RestClient client(options);
  Outcome outcome;
  const CapturedOutput output(folder);
  try {
    outcome.code = print_events(client, options, {job, false});
  } catch (const Error &error) {
    outcome.failure = error.message();
  }
  outcome.printed = output.text();
  return outcome;
}

std::size_t lines_in(const std::string &text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string entry(int id) {
  const std::string number = std::to_string(id);
  return "id: " + number + "\nevent: notice\ndata: {\"text\":\"event " + number + "\"}\n\n";
}

std::string chunk(const std::string &bytes) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

/// A coordinator that says that event `newest` is the newest one, and then `stream`.
class ScriptedCoordinator {
 public:
  ScriptedCoordinator(int newest, const std::string &stream)
      : server_([=](RawConnection &connection) {
          connection.receive_until("\r\n\r\n");
          connection.send("HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"state\":\"running\"}");
          const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nLast-Event-ID: " +
                                   std::to_string(newest) + "\r\nTransfer-Encoding: chunked\r\n\r\n";
          connection.receive_until("\r\n\r\n");
          connection.send(head);
          connection.receive_until("\r\n\r\n");
          connection.send(head + stream);
        }) {}
  std::string url() const { return server_.url(""); }

 private:
  RawServer server_;
};

struct Absence {
  std::vector<std::string> events;
  std::vector<std::string> told;
  bool was_away = false;
};

/// The stream breaks off after its first event; the third try finds it again.
Absence follow_over_an_absence(std::chrono::milliseconds reminder_interval) {
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawListener listener;
  std::thread coordinator([&] {
    {
      RawConnection connection = listener.accept();
      connection.receive_until("\r\n\r\n");
      connection.send(head + chunk(entry(1)));  // and breaks off
    }
    for (int i = 0; i < 2; ++i) listener.accept().receive_until("\r\n\r\n");
    RawConnection connection = listener.accept();
    connection.receive_until("\r\n\r\n");
    connection.send(head + chunk(entry(2)) + "0\r\n\r\n");
    connection.receive_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{\"state\":\"completed\"}");
  });
  const TemporaryFolder folder;
  ClientOptions options;
  options.connection.url = listener.url();
  options.token_file = folder.file("token", kOperatorToken);
  std::filesystem::permissions(options.token_file, std::filesystem::perms::owner_all);
  RestClient client(options);
  Absence absence;
  FollowOptions follow;
  follow.job = 1;
  follow.on_event = [&](const StreamEvent &event) { absence.events.push_back(event.id); };
  follow.on_tick = [&](bool is_away) {
    absence.was_away = absence.was_away || is_away;
    return true;
  };
  follow.reminder_interval = reminder_interval;
  follow.on_trouble = [&](const std::string &text) { absence.told.push_back(text); };
  follow_events(client, follow);
  coordinator.join();
  return absence;
}

}  // namespace

TEST_CASE("events prints all that there are, and ends") {
  SmallJob small;
  CoordinatorServer server(*small.coordinator, loopback_serving());
  ManualWorker worker = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  const Task task = worker.task();

  const std::size_t so_far = small.coordinator->events_after(job, 0, 1'000).size();
  const Outcome running = print(server.url(), job);
  CHECK(running.failure.empty());
  CHECK(running.code == 0);
  CHECK(lines_in(running.printed) == so_far);

  worker.train(task, constant(1));
  small.ended(job);
  const Outcome ended = print(server.url(), job);
  CHECK(ended.code == 0);
  CHECK(lines_in(ended.printed) == small.coordinator->events_after(job, 0, 1'000).size());
  CHECK(ended.printed.starts_with(running.printed.substr(0, running.printed.find('\n'))));
  CHECK(print(server.url(), 99).failure.find("99") != std::string::npos);
}

TEST_CASE("events ends with the newest one of its beginning, whatever comes behind it") {
  const ScriptedCoordinator coordinator(2, chunk(entry(1)) + chunk(entry(2) + entry(3)) + chunk(entry(4)));
  const Outcome outcome = print(coordinator.url(), 1);
  CHECK(outcome.failure.empty());
  CHECK(outcome.code == 0);
  CHECK(lines_in(outcome.printed) == 2);
  CHECK(outcome.printed.find("event 2") != std::string::npos);
}

TEST_CASE("events takes a later one for the newest where that has been dropped") {
  const ScriptedCoordinator coordinator(3, chunk(entry(1)) + chunk(entry(5)));
  const Outcome outcome = print(coordinator.url(), 1);
  CHECK(outcome.code == 0);
  CHECK(lines_in(outcome.printed) == 1);
}

TEST_CASE("a stream that breaks off before the newest event is a failure that says how far it came") {
  const ScriptedCoordinator coordinator(3, chunk(entry(1)) + chunk(entry(2)));
  const Outcome outcome = print(coordinator.url(), 1);
  CHECK(outcome.code == -1);
  CHECK(outcome.failure.find("up to 2 of 3") != std::string::npos);
  CHECK(lines_in(outcome.printed) == 2);
}

TEST_CASE("a job without events has none to print") {
  const ScriptedCoordinator coordinator(0, "");
  const Outcome outcome = print(coordinator.url(), 1);
  CHECK(outcome.code == 0);
  CHECK(outcome.printed.empty());
}

TEST_CASE("a coordinator that is away is told of once, and so is that it is back") {
  const Absence absence = follow_over_an_absence(std::chrono::hours(1));
  CHECK(absence.events == std::vector<std::string>{"1", "2"});
  CHECK(absence.was_away);
  REQUIRE(absence.told.size() == 2);
  CHECK(absence.told[0].starts_with("the coordinator is away ("));
  CHECK(absence.told[1] == "the coordinator is back");
}

TEST_CASE("a coordinator that stays away is told of again") {
  const Absence absence = follow_over_an_absence(std::chrono::milliseconds(0));
  REQUIRE(absence.told.size() == 4);
  CHECK(absence.told[0].starts_with("the coordinator is away ("));
  CHECK(absence.told[1].starts_with("the coordinator is still away ("));
  CHECK(absence.told[2].starts_with("the coordinator is still away ("));
  CHECK(absence.told[3] == "the coordinator is back");
}
