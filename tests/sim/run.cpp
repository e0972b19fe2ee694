// The program: many seeds in several processes, or one seed with its trace.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "sim/simulation.hpp"

namespace {

using parsyn::sim::Breakage;
using parsyn::sim::SimulationOptions;
using parsyn::sim::SimulationResult;
namespace fs = std::filesystem;

/// A killed machine abandons its memory: a process runs so many worlds, then another takes its place.
constexpr std::uint64_t kSeedsPerProcess = 20;
constexpr unsigned kSecondsPerSeedMax = 120;
/// So many seeds are run twice: the same seed, the same course.
constexpr std::uint64_t kTwiceEvery = 16;

struct Arguments {
  std::uint64_t from = 1;
  std::uint64_t seeds = 200;
  bool one = false;
  bool trace = false;
  Breakage breakage = Breakage::none;
};

/// What a process tells its parent, also when it dies.
struct Slot {
  std::atomic<std::uint64_t> seed;
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> starts;
  std::atomic<std::uint64_t> rounds;
  std::atomic<std::uint64_t> reports;
  std::atomic<std::uint64_t> simulated_ms;
};

[[noreturn]] void usage() {
  std::fputs(
      "simulator [--seeds N] [--from SEED] [--seed SEED [--trace]] [--break "
      "late_journal|no_flush|lost_object]\n",
      stderr);
  std::exit(2);
}

Arguments read_arguments(int count, char **texts) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string name = texts[i];
    if (name == "--trace") {
      arguments.trace = true;
      continue;
    }
    if (++i == count) usage();
    const std::string value = texts[i];
    if (name == "--break") {
      const std::map<std::string, Breakage> known{{"late_journal", Breakage::late_journal},
                                                  {"no_flush", Breakage::no_flush},
                                                  {"lost_object", Breakage::lost_object},
                                                  {"none", Breakage::none}};
      const auto found = known.find(value);
      if (found == known.end()) usage();
      arguments.breakage = found->second;
      continue;
    }
    char *end = nullptr;
    const std::uint64_t number = std::strtoull(value.c_str(), &end, 10);
    if (*end != '\0' || value.empty()) usage();
    if (name == "--seeds") {
      arguments.seeds = number;
    } else if (name == "--from") {
      arguments.from = number;
    } else if (name == "--seed") {
      arguments.from = number;
      arguments.seeds = 1;
      arguments.one = true;
    } else {
      usage();
    }
  }
  return arguments;
}

fs::path scratch_folder() {
  std::error_code ignored;
  const fs::path memory = "/dev/shm";
  const fs::path base = fs::is_directory(memory, ignored) ? memory : fs::temp_directory_path();
  return base / ("parsyn-simulator-" + std::to_string(::getpid()));
}

SimulationResult run_seed(const Arguments &arguments, std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.print_trace = arguments.trace;
  options.breakage = arguments.breakage;
  options.scratch = scratch_folder();
  SimulationResult result = parsyn::sim::simulate_and_compare(options);
  if (result.violation.empty() && seed % kTwiceEvery == 1) {
    if (parsyn::sim::simulate(options).digest != result.digest)
      result.violation = "the same seed took another course the second time";
  }
  return result;
}

int run_one(const Arguments &arguments) {
  const SimulationResult result = run_seed(arguments, arguments.from);
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(arguments.from),
              result.violation.empty() ? "all is well" : result.violation.c_str());
  std::printf("  %.1f s simulated, %llu starts, %llu commits, %llu rounds, %llu reports, digest %016llx\n",
              static_cast<double>(result.simulated.count()) / 1e3,
              static_cast<unsigned long long>(result.starts), static_cast<unsigned long long>(result.commits),
              static_cast<unsigned long long>(result.rounds), static_cast<unsigned long long>(result.reports),
              static_cast<unsigned long long>(result.digest));
  for (const std::string &model : result.models) std::printf("  %s\n", model.c_str());
  return result.violation.empty() ? 0 : 1;
}

int run_some(const Arguments &arguments, std::uint64_t first, std::uint64_t end, Slot &slot) {
  for (std::uint64_t seed = first; seed < end; ++seed) {
    slot.seed = seed;
    ::alarm(kSecondsPerSeedMax);
    const SimulationResult result = run_seed(arguments, seed);
    if (!result.violation.empty()) {
      std::printf("\nseed %llu: %s\n", static_cast<unsigned long long>(seed), result.violation.c_str());
      std::fflush(stdout);
      return 1;
    }
    slot.done += 1;
    slot.starts += result.starts;
    slot.rounds += result.rounds;
    slot.reports += result.reports;
    slot.simulated_ms += static_cast<std::uint64_t>(result.simulated.count());
  }
  return 0;
}

struct Sums {
  std::uint64_t done = 0, starts = 0, rounds = 0, reports = 0, simulated_ms = 0;
  void add(const Slot &slot) {
    done += slot.done;
    starts += slot.starts;
    rounds += slot.rounds;
    reports += slot.reports;
    simulated_ms += slot.simulated_ms;
  }
};

/// 0, or 1 with the seed that failed printed as "failed SEED" last.
int run_many(const Arguments &arguments) {
  const unsigned at_once = std::max(1U, std::thread::hardware_concurrency());
  auto *slots = static_cast<Slot *>(
      ::mmap(nullptr, sizeof(Slot) * at_once, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (slots == MAP_FAILED) return 2;
  const auto began = std::chrono::steady_clock::now();
  const std::uint64_t end = arguments.from + arguments.seeds;
  std::uint64_t next = arguments.from;
  std::map<pid_t, unsigned> running;
  std::vector<unsigned> idle;
  for (unsigned i = 0; i < at_once; ++i) idle.push_back(i);
  Sums sums;
  std::uint64_t failed = 0;
  bool has_failed = false;
  const auto say = [&](const char *ending) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf(
        "%llu seeds in %.0f s (%.1f a second): %llu starts, %llu rounds, %llu reports, %.0f h simulated%s",
        static_cast<unsigned long long>(sums.done), seconds, static_cast<double>(sums.done) / seconds,
        static_cast<unsigned long long>(sums.starts), static_cast<unsigned long long>(sums.rounds),
        static_cast<unsigned long long>(sums.reports), static_cast<double>(sums.simulated_ms) / 3.6e6,
        ending);
    std::fflush(stdout);
  };
  while (!running.empty() || (next < end && !has_failed)) {
    while (!idle.empty() && next < end && !has_failed) {
      const unsigned place = idle.back();
      idle.pop_back();
      std::memset(static_cast<void *>(&slots[place]), 0, sizeof(Slot));
      const std::uint64_t first = next;
      next = std::min(end, next + kSeedsPerProcess);
      std::fflush(stdout);
      const pid_t child = ::fork();
      if (child < 0) return 2;
      if (child == 0) {
        const int code = run_some(arguments, first, next, slots[place]);
        std::fflush(stdout);
        ::_exit(code);
      }
      running[child] = place;
    }
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    const auto found = running.find(ended);
    if (found == running.end()) continue;
    const unsigned place = found->second;
    running.erase(found);
    idle.push_back(place);
    sums.add(slots[place]);
    if (status != 0) {
      const std::uint64_t seed = slots[place].seed;
      if (WIFSIGNALED(status)) {
        std::printf(
            "\nseed %llu: %s\n", static_cast<unsigned long long>(seed),
            WTERMSIG(status) == SIGALRM ? "it does not come to an end" : ::strsignal(WTERMSIG(status)));
      }
      if (!has_failed || seed < failed) failed = seed;
      has_failed = true;
    }
    say(::isatty(STDOUT_FILENO) != 0 ? "\r" : "\n");
  }
  say("\n");
  if (has_failed) std::printf("failed %llu\n", static_cast<unsigned long long>(failed));
  return has_failed ? 1 : 0;
}

}  // namespace

int main(int count, char **texts) {
  const Arguments arguments = read_arguments(count, texts);
  return arguments.one ? run_one(arguments) : run_many(arguments);
}
