// simulate: federated averaging on Fashion-MNIST with many virtual workers in one process.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "simulate/simulation.hpp"

namespace {

constexpr char kUsage[] =
    "usage: simulate [OPTION...]\n"
    "Federated averaging on Fashion-MNIST with many virtual workers in one process.\n"
    "  --workers N          virtual workers, each with a partition of its own (100)\n"
    "  --cohort N           workers in a round (10)\n"
    "  --rounds N           (20)\n"
    "  --batch N            examples in a step (10)\n"
    "  --epochs N           over a worker's partition in each round (1)\n"
    "  --learning-rate X    of plain SGD (0.05)\n"
    "  --partition KIND     even, shards (two of one label each), dirichlet (alpha 0.5) (even)\n"
    "  --seed N             of the split, the cohorts, the batches and the first weights (1)\n"
    "  --data FOLDER        with the four IDX files (/usr/share/datasets/fashion-mnist)\n"
    "  --json               one JSON object a line instead of a table\n";

/// What was typed is wrong: the message says what, and the usage follows.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct CommandLine {
  simulate::Options options;
  bool json = false;
  bool help = false;
};

template <typename Number>
void read(std::string_view name, std::string_view text, Number &into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(std::string(name) + " " + std::string(text) + " is not a number in range");
  }
}

CommandLine parse(int argc, char **argv) {
  CommandLine line;
  simulate::Options &options = line.options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      line.json = true;
      continue;
    }
    if (name == "--help") {
      line.help = true;
      return line;
    }
    if (i + 1 == argc) throw UsageError(std::string(name) + " is not an option, or has no value");
    const std::string_view value = argv[++i];
    if (name == "--workers")
      read(name, value, options.workers);
    else if (name == "--cohort")
      read(name, value, options.cohort);
    else if (name == "--rounds")
      read(name, value, options.rounds);
    else if (name == "--batch")
      read(name, value, options.batch_size);
    else if (name == "--epochs")
      read(name, value, options.epochs);
    else if (name == "--learning-rate")
      read(name, value, options.learning_rate);
    else if (name == "--partition")
      options.partition = value;
    else if (name == "--seed")
      read(name, value, options.seed);
    else if (name == "--data")
      options.data = value;
    else
      throw UsageError("there is no option " + std::string(name));
  }
  if (options.workers == 0) throw UsageError("--workers must be at least 1");
  return line;
}

void print_row(const simulate::Round &round) {
  if (round.number == 1) {
    std::printf("%6s  %15s  %9s  %7s\n", "round", "validation loss", "accuracy", "seconds");
  }
  std::printf("%6u  %15.4f  %7.2f %%  %7.2f\n", round.number, round.validation_loss,
              100 * round.accuracy.value_or(0), round.seconds);
  std::fflush(stdout);
}

/// A loss that has run away is no JSON number.
std::string json_number(double value) { return std::isfinite(value) ? std::to_string(value) : "null"; }

void print_json(const simulate::Round &round) {
  std::printf("{\"round\": %u, \"validation_loss\": %s, \"accuracy\": %.4f, \"seconds\": %.3f}\n",
              round.number, json_number(round.validation_loss).c_str(), round.accuracy.value_or(0),
              round.seconds);
  std::fflush(stdout);
}

int run(const CommandLine &line) {
  const simulate::Result result = simulate::run(line.options, line.json ? print_json : print_row);
  const std::string state(parsyn::job_state_name(result.status.state));
  if (line.json) {
    std::printf("{\"state\": \"%s\", \"seconds\": %.3f, \"model_sha256\": \"%s\"}\n", state.c_str(),
                result.seconds, result.model_sha256.c_str());
  } else {
    std::printf("%s after %.1f s: %s\nfinal model: SHA-256 %s\n", state.c_str(), result.seconds,
                result.status.reason.c_str(), result.model_sha256.c_str());
  }
  return result.status.state == parsyn::JobState::completed ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    const CommandLine line = parse(argc, argv);
    if (!line.help) return run(line);
    std::fputs(kUsage, stdout);
    return 0;
  } catch (const UsageError &error) {
    std::fprintf(stderr, "simulate: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "simulate: %s\n", error.what());
    return 1;
  }
}
