// How fast FedAvg reads its input, beside what memcpy makes of the same bytes in the same run.
//
// K updates of one F32 tensor lie in memory; the result goes nowhere. Input rates count the bytes of all
// updates once.
//   aggregation [updates] [millions of parameters] [repeats]      default: 8 8 5
// Prints the best of the repeats: others use the machine too.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "parsyn/aggregator.hpp"
#include "parsyn/error.hpp"

namespace {

/// Piece i runs on thread i modulo their number, the caller's own among them.
class ThreadExecutor final : public parsyn::Executor {
 public:
  explicit ThreadExecutor(unsigned threads) : threads_(threads) {}
  unsigned concurrency() const override { return threads_; }

  void run(std::size_t count, const std::function<void(std::size_t)> &piece) override {
    const auto pieces_of = [&](std::size_t thread) {
      for (std::size_t index = thread; index < count; index += threads_) piece(index);
    };
    std::vector<std::thread> others;
    for (std::size_t thread = 1; thread < std::min<std::size_t>(threads_, count); ++thread) {
      others.emplace_back(pieces_of, thread);
    }
    pieces_of(0);
    for (std::thread &other : others) other.join();
  }

 private:
  unsigned threads_;
};

class CountingSink final : public parsyn::ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override { bytes_ += bytes.size(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

template <typename Act>
double best_seconds(int repeats, Act act) {
  double best = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    act();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

std::vector<std::byte> update_file(const parsyn::TensorSpec &spec, std::uint64_t seed) {
  parsyn::MemorySink sink;
  std::vector<float> elements(spec.element_count());
  std::uint64_t state = seed;
  for (float &element : elements) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    element = static_cast<float>(static_cast<std::int64_t>(state) >> 40) * 0x1p-28f;
  }
  parsyn::write_safetensors({{spec.name, parsyn::make_f32_tensor(spec.shape, elements)}}, sink);
  return sink.bytes();
}

void measure(std::size_t update_count, std::uint64_t parameters, int repeats) {
  const std::vector<parsyn::TensorSpec> specs{{"w", parsyn::Dtype::f32, {parameters}}};
  std::vector<std::vector<std::byte>> files;
  for (std::size_t index = 0; index < update_count; ++index) files.push_back(update_file(specs[0], index));
  std::deque<parsyn::MemorySource> sources;
  std::vector<parsyn::Update> updates;
  for (std::size_t index = 0; index < update_count; ++index) {
    updates.push_back({index, 100 + index, &sources.emplace_back(files[index])});
  }
  const double input_bytes = static_cast<double>(update_count) * static_cast<double>(files[0].size());
  std::printf("%zu updates of %llu F32 parameters, %.0f MB of input\n", update_count,
              static_cast<unsigned long long>(parameters), input_bytes / 1e6);
  std::vector<std::byte> copy(files[0].size());
  for (const unsigned threads : {1u, 2u}) {
    ThreadExecutor executor(threads);
    const double copying = best_seconds(repeats, [&] {
      executor.run(threads, [&](std::size_t thread) {
        const std::size_t begin = copy.size() * thread / threads;
        const std::size_t end = copy.size() * (thread + 1) / threads;
        for (const auto &file : files) std::memcpy(copy.data() + begin, file.data() + begin, end - begin);
      });
    });
    const double aggregating = best_seconds(repeats, [&] {
      CountingSink sink;
      parsyn::FedAvgAggregator().aggregate(specs, updates, executor, sink);
      if (sink.bytes() != files[0].size())
        throw parsyn::Error(parsyn::ErrorCode::internal, "result has another size");
    });
    const double validating = best_seconds(repeats, [&] {
      for (const auto &source : sources) {
        const std::string reason = parsyn::why_update_is_refused(source, specs, executor);
        if (!reason.empty()) throw parsyn::Error(parsyn::ErrorCode::internal, reason);
      }
    });
    std::printf("%u thread%s memcpy %6.2f GB/s   aggregate %6.2f GB/s   validate %6.2f GB/s\n", threads,
                threads == 1 ? ": " : "s:", input_bytes / copying / 1e9, input_bytes / aggregating / 1e9,
                input_bytes / validating / 1e9);
  }
}

}  // namespace

int main(int argc, char **argv) {
  const auto argument = [&](int index, long fallback) {
    return argc > index ? std::max(1L, std::strtol(argv[index], nullptr, 10)) : fallback;
  };
  try {
    measure(static_cast<std::size_t>(argument(1, 8)), static_cast<std::uint64_t>(argument(2, 8)) * 1'000'000,
            static_cast<int>(argument(3, 5)));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "aggregation: %s\n", error.what());
    return 1;
  }
  return 0;
}
