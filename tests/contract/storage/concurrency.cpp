#include <atomic>
#include <thread>
#include <vector>

#include "contract/storage/backends.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/objects.hpp"
#include "system/sha256.hpp"

using namespace parsyn;
using namespace parsyn::test;

TEST_CASE("readers of a key that is replaced again and again see all bytes of one write") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  const auto content = [](int writer, int turn) {
    return std::string(50'000 + writer * 100 + turn, static_cast<char>('a' + writer));
  };
  put(*store, "shared/current", content(0, 0));

  std::atomic<int> writing{3};
  std::atomic<int> torn{0};
  std::atomic<int> failed{0};
  std::atomic<int> reads{0};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&, writer] {
      try {
        for (int turn = 0; turn < 25; ++turn) put(*store, "shared/current", content(writer, turn));
      } catch (...) {
        ++failed;
      }
      --writing;
    });
  }
  for (int reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&] {
      try {
        do {
          const std::string text = get(*store, "shared/current");
          if (text.empty() || text.find_first_not_of(text.front()) != std::string::npos) ++torn;
          const ObjectInfo info = store->stat("shared/current");
          if (info.bytes < 50'000 || info.sha256.size() != 64) ++torn;
          if (store->list("shared/") != std::vector<std::string>{"shared/current"}) ++torn;
          ++reads;
        } while (writing > 0);
      } catch (...) {
        ++failed;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(failed == 0);
  CHECK(reads > 0);
  CHECK(store->stat("shared/current").sha256 == system::sha256_hex(get(*store, "shared/current")));
}

TEST_CASE("writers and removers of neighbouring keys are not in each other's way") {
  const StoreUnderTest store(GENERATE(as<std::string>{}, "memory", "file"));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        // All share a folder that becomes empty, and goes, whenever the others have just removed theirs.
        const std::string key = "jobs/1/updates/" + std::to_string(worker);
        for (int turn = 0; turn < 25; ++turn) {
          put(*store, key, key);
          if (get(*store, key) != key) ++failed;
          store->remove(key);
        }
        put(*store, key, key);
      } catch (...) {
        ++failed;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(store->list("jobs/1/updates/").size() == 4);
}
