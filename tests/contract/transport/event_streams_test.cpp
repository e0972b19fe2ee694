// A job's events over HTTP: all of them, in order, also to a reader that is slower than the server.
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "http/http_client.hpp"
#include "parsyn/http.hpp"
#include "support/catch.hpp"
#include "support/events.hpp"
#include "support/loopback_serving.hpp"
#include "support/raw_socket.hpp"
#include "support/small_job.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// Nobody sends heartbeats while a test reads for a while, and no lease's end is to come between its events.
CoordinatorOptions with_long_lease() {
  CoordinatorOptions options;
  options.lease_duration = std::chrono::minutes(10);
  return options;
}

/// A job whose one worker has said much.
struct LongJob {
  SmallJob small{constant(0), 12, with_long_lease()};
  ManualWorker worker = ManualWorker::join(*small.coordinator);
  Task task;
  CoordinatorServer server;

  LongJob() : server(*small.coordinator, loopback_serving()) {
    small.coordinator->submit(small.config(1, 1));
    task = worker.task();
  }
  std::string path() const { return "/api/v1/training-jobs/" + std::to_string(task.job_id) + "/events"; }
  http::HttpClientRequest request(const std::string &method, const std::string &query = {}) const {
    http::HttpClientRequest request;
    request.method = method;
    request.url = server.url() + path() + query;
    request.headers["Authorization"] = std::string("Bearer ") + kOperatorToken;
    return request;
  }
  void say(std::uint64_t step, const std::string &phase) {
    Heartbeat heartbeat = worker.training(task);
    heartbeat.progress->phase = phase;
    heartbeat.progress->step = step;
    worker.transport().heartbeat(heartbeat);
  }
  std::uint64_t newest() {
    const auto answer = http::HttpClient().perform(request("HEAD"));
    CHECK(answer.status == 200);
    return std::stoull(answer.headers.at("Last-Event-ID"));
  }
};

/// The body up to the entry of `last`, as it is sent in HTTP/1.0.
std::string read_through(RawConnection &connection, std::uint64_t last) {
  const std::string mark = "\nid: " + std::to_string(last) + "\n";
  std::string body;
  while (body.find(mark, body.size() < 100'000 ? 0 : body.size() - 100'000) == std::string::npos ||
         !body.ends_with("\n\n")) {
    const std::string piece = connection.receive();
    if (piece.empty()) break;
    body += piece;
  }
  return body;
}

/// The ids of the entries, which must follow on each other.
std::uint64_t count_entries(const std::string &body) {
  std::uint64_t count = 0;
  for (std::size_t at = body.find("id: "); at != std::string::npos; at = body.find("\nid: ", at + 1)) {
    const std::uint64_t id = std::stoull(body.substr(body.find(' ', at) + 1, 20));
    if (id != ++count) break;
  }
  return count;
}

}  // namespace

TEST_CASE("a reader that comes late and reads slowly gets a backlog of many megabytes") {
  LongJob job;
  // A sentence of the worker's that only the in-process transport passes on.
  const std::string phase(3'000, 'x');
  constexpr std::uint64_t kMessages = 2'000;
  for (std::uint64_t i = 0; i < kMessages; ++i) job.say(i, phase);
  const std::uint64_t newest = job.newest();
  CHECK(newest > kMessages);

  const auto connect = [&](int receive_bytes) {
    RawConnection connection(RawConnection::new_socket());
    ::setsockopt(connection.descriptor(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    connection.connect(job.server.port());
    connection.send("GET " + job.path() + " HTTP/1.0\r\nAuthorization: Bearer " + kOperatorToken +
                    "\r\n\r\n");
    return connection;
  };
  RawConnection slow = connect(4'096);
  const std::string head = slow.receive(kRawPatience);
  CHECK(head.starts_with("HTTP/1.1 200"));
  // One that reads has everything before the first one goes on: nothing that the server has for that one is
  // held back by now.
  RawConnection fast = connect(1 << 20);
  const std::string all = read_through(fast, newest);
  CHECK(all.size() > (10 << 20));
  CHECK(count_entries(all.substr(all.find("id: "))) == newest);
  const std::string late = head + read_through(slow, newest);
  const bool is_same = late.substr(late.find("id: ")) == all.substr(all.find("id: "));  // too long to print
  CHECK(is_same);
  // News come, too.
  job.say(1, "training");
  CHECK(read_through(slow, newest + 1).find("is training") != std::string::npos);
}

TEST_CASE("the answer says which event is the newest, as HEAD does alone") {
  LongJob job;
  const std::uint64_t newest = job.newest();
  CHECK(newest == job.small.coordinator->last_event(job.task.job_id));
  CHECK(newest == job.small.coordinator->events_after(job.task.job_id, 0, 1'000).back().sequence);
  job.say(1, "training");
  CHECK(job.newest() == newest + 1);
  // Behind the newest one, and before a job that there is not.
  std::string body;
  http::HttpClientRequest request = job.request("GET", "?after=" + std::to_string(newest));
  request.on_body = [&](std::string_view piece) {
    body += piece;
    return body.find("\n\n") == std::string::npos;
  };
  const auto answer = http::HttpClient().perform(request);
  CHECK(answer.headers.at("Last-Event-ID") == std::to_string(newest + 1));
  CHECK(body.starts_with("id: " + std::to_string(newest + 1)));
  request = job.request("HEAD");
  request.url = job.server.url() + "/api/v1/training-jobs/99/events";
  CHECK(http::HttpClient().perform(request).status == 404);
}

namespace {

/// A host's journal that cannot be read from a moment on, and says so by an exception of its own.
class UnreadableJournal final : public Journal {
 public:
  using Journal::for_each;
  void commit(std::span<const JournalWrite> batch) override { below_->commit(batch); }
  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    if (table == "events" && reads_left >= 0 && reads_left-- == 0) {
      happened.happen();
      throw std::bad_alloc();
    }
    below_->for_each(table, range, visit);
  }
  std::string failure() const override { return below_->failure(); }

  mutable std::atomic<int> reads_left{-1};
  mutable test::Event happened;

 private:
  std::shared_ptr<Journal> below_ = make_memory_journal();
};

}  // namespace

TEST_CASE("what a host's journal throws while events are read ends their stream, and not the process") {
  const auto journal = std::make_shared<UnreadableJournal>();
  CoordinatorOptions options;
  options.store = make_memory_store();
  options.journal = journal;
  SmallJob small(constant(0), 12, options);
  ManualWorker worker = ManualWorker::join(*small.coordinator);
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  worker.train(worker.task(), constant(1));
  REQUIRE(small.ended(job).state == JobState::completed);
  // Started again, it reads the events of a job that has ended from the journal, whenever they are asked for.
  small.coordinator.reset();
  small.coordinator = make_coordinator(options);

  Mailbox<std::string> lines;
  ServeOptions serving = loopback_serving();
  serving.log = [&](const LogRecord &record) {
    if (record.id == "events.failed") lines.put(record.text);
  };
  CoordinatorServer server(*small.coordinator, serving);
  http::HttpClientRequest request;
  request.url = server.url() + "/api/v1/training-jobs/" + std::to_string(job) + "/events";
  request.headers["Authorization"] = std::string("Bearer ") + kOperatorToken;
  http::HttpClient client;
  const std::string whole = client.perform(request).body;
  CHECK(whole.find("job_completed") != std::string::npos);
  std::size_t failures = 0;
  for (int reads = 0; reads < 3; ++reads) {
    journal->reads_left = reads;
    const auto answer = client.perform(request);
    if (journal->reads_left.exchange(-1) >= 0) break;
    INFO("the read after " << reads << " fails");
    ++failures;
    CHECK(journal->happened.count() == failures);
    CHECK((answer.status == 503 || answer.body.size() < whole.size() || answer.body == whole));
    CHECK(client.perform(request).body == whole);
  }
  CHECK(failures >= 2);
  REQUIRE_FALSE(lines.wait(1).empty());
  CHECK(lines.wait(1)[0].find("std::bad_alloc") != std::string::npos);
}
