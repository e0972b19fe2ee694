// What a worker does when its heartbeats do not arrive.
#include <atomic>

#include "small_worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/events.hpp"
#include "support/passing_transport.hpp"

using namespace parsyn;
using namespace parsyn::test;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint32_t kLost = 5;

/// Loses heartbeats, and where it is `away` reports as well, as long as a test wants it.
class LosingTransport final : public PassingTransport {
 public:
  struct Line {
    std::atomic<ErrorCode> lost_by{ErrorCode::ok};
    bool away = false;
    Mailbox<Clock::time_point> lost;
  };
  LosingTransport(std::unique_ptr<Transport> inner, Line &line)
      : PassingTransport(std::move(inner)), line_(line) {}

  HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) override {
    const ErrorCode code = line_.lost_by;
    if (code == ErrorCode::ok) return PassingTransport::heartbeat(heartbeat);
    line_.lost.put(Clock::now());
    throw Error(code, "this heartbeat is lost");
  }
  ReportReceipt report(const Report &report) override {
    const ErrorCode code = line_.lost_by;
    if (!line_.away || code == ErrorCode::ok) return PassingTransport::report(report);
    throw Error(code, "this report is lost");
  }

 private:
  Line &line_;
};

}  // namespace

TEST_CASE("heartbeats to a coordinator that is away come ever more seldom, and the user is told once") {
  CoordinatorOptions slow;
  slow.heartbeat_interval = milliseconds(800);
  slow.progress_interval = milliseconds(5);
  slow.lease_duration = std::chrono::seconds(60);
  SmallJob small(constant(0), 12, slow);
  const auto factory = std::make_shared<CountingFactory>();
  Gate gate;
  LosingTransport::Line line;
  line.lost_by = ErrorCode::unavailable;
  // There is something new to tell after each heartbeat.
  factory->before_step = [&](const RoundTask &, std::uint64_t step, TrainMonitor &) {
    if (step <= kLost) {
      line.lost.wait(step);
    } else {
      gate.wait();
    }
  };
  std::atomic<int> warnings{0};
  WorkerOptions options = options_for(small, factory, new_token(small));
  options.transport = std::make_unique<LosingTransport>(std::move(options.transport), line);
  options.backoff_first = milliseconds(100);
  options.log = [&](const LogRecord &record) {
    if (record.id == "worker.heartbeat_lost" && record.level == LogLevel::warning) ++warnings;
  };
  const Worker worker(std::move(options));
  JobConfig config = small.config(1, 1);
  config.distributed->steps_per_round = kLost + 1;
  const Id job = small.coordinator->submit(config).id;

  const auto lost = line.lost.wait(kLost);
  REQUIRE(lost.size() >= kLost);
  CHECK(lost[2] - lost[1] >= milliseconds(100));
  CHECK(lost[3] - lost[2] >= milliseconds(200));
  CHECK(lost[4] - lost[3] >= milliseconds(400));
  CHECK(warnings == 1);

  line.lost_by = ErrorCode::ok;
  gate.open();
  CHECK(small.ended(job).state == JobState::completed);
  // What was to be told meanwhile is told.
  REQUIRE(small.coordinator->losses(job).size() == 1);
  CHECK(small.coordinator->losses(job)[0].losses.size() == kLost + 1);

  const std::size_t before = line.lost.wait(0).size();
  line.lost_by = ErrorCode::timeout;
  CHECK(line.lost.wait(before + 2).size() >= before + 2);
  CHECK(warnings == 2);
}

TEST_CASE("a heartbeat that finds the coordinator back ends a long wait before the next try") {
  CoordinatorOptions often;
  often.heartbeat_interval = milliseconds(50);
  SmallJob small(constant(0), 12, often);
  LosingTransport::Line line;
  line.away = true;
  line.lost_by = ErrorCode::unavailable;
  Gate waits;
  WorkerOptions options = options_for(small, std::make_shared<CountingFactory>(), new_token(small));
  options.transport = std::make_unique<LosingTransport>(std::move(options.transport), line);
  options.backoff_first = std::chrono::hours(1);
  options.backoff_max = std::chrono::hours(1);
  options.log = [&](const LogRecord &record) {
    if (record.id == "worker.coordinator_away") waits.open();
  };
  const Worker worker(std::move(options));
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  line.lost.wait(1);
  waits.wait();
  line.lost_by = ErrorCode::ok;
  CHECK(small.ended(job).state == JobState::completed);
}

TEST_CASE("a report does not wait for heartbeats that are refused") {
  SmallJob small;
  const auto factory = std::make_shared<CountingFactory>();
  LosingTransport::Line line;
  line.lost_by = ErrorCode::invalid_argument;
  WorkerOptions options = options_for(small, factory, new_token(small));
  options.transport = std::make_unique<LosingTransport>(std::move(options.transport), line);
  Worker worker(std::move(options));
  CHECK(small.ended(small.coordinator->submit(small.config(1, 1)).id).state == JobState::completed);
  CHECK_FALSE(line.lost.wait(1).empty());
  CHECK(factory->rounds_trained == 1);
}
