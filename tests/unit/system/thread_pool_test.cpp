#include "system/thread_pool.hpp"

#include <new>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "support/events.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("work that throws is logged, and ends neither the process nor its thread") {
  Mailbox<std::string> lines;
  Event done;
  system::ThreadPool pool(1, system::system_runtime(), [&](const LogRecord &record) {
    lines.put(std::string(record.id) + " " + record.text);
  });
  pool.post([] { throw std::bad_alloc(); });
  pool.post([] { throw std::runtime_error("no luck"); });
  pool.post([] { throw 7; });
  pool.post([&] { done.happen(); });
  REQUIRE(done.wait());
  const auto told = lines.wait(3);
  REQUIRE(told.size() == 3);
  CHECK(told[0].find("std::bad_alloc") != std::string::npos);
  CHECK(told[1] == "pool.work_failed work of the thread pool failed: no luck");
  CHECK(told[2].find("unknown type") != std::string::npos);
}

TEST_CASE("a log that throws does not end the pool's thread") {
  Event done;
  system::ThreadPool pool(1, system::system_runtime(), [](const LogRecord &) { throw std::bad_alloc(); });
  pool.post([] { throw std::runtime_error("no luck"); });
  pool.post([&] { done.happen(); });
  CHECK(done.wait());
}
