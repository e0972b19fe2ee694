// Many virtual workers and their coordinator in one process: federated averaging on Fashion-MNIST, for
// research.
//
// Nothing here is a shortcut: the coordinator and the workers are those of a real deployment, with an
// in-process transport between them. Each worker keeps one partition for the whole job, and each round
// invites a cohort of them. With one seed, one machine and one build, a run ends with the same bytes every
// time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "parsyn/status.hpp"

namespace simulate {

struct Options {
  std::uint32_t workers = 100;  ///< As many partitions.
  std::uint32_t cohort = 10;    ///< Workers in a round.
  std::uint32_t rounds = 20;
  std::uint32_t batch_size = 10;
  std::uint32_t epochs = 1;  ///< Over a worker's partition, in each round.
  double learning_rate = 0.05;
  std::string partition = "even";  ///< "even", "shards" (two for each worker), "dirichlet" (alpha 0.5).
  std::uint64_t seed = 1;
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";  ///< Debian's dataset-fashion-mnist.
};

struct Round {
  std::uint32_t number = 0;
  double validation_loss = 0;
  std::optional<double> accuracy;  ///< Of the new global model, on the 10,000 test images.
  double seconds = 0;
};

struct Result {
  parsyn::JobStatus status;  ///< The job has ended; its state says how.
  std::string model_sha256;  ///< Of the last global model's file.
  double seconds = 0;        ///< Of the whole job, without reading the data.
};

/// Calls `on_round` after each round, as soon as its model has been evaluated: while the next round runs.
/// Throws parsyn::Error, for what it is asked to do and for files that are not there.
Result run(const Options &options, const std::function<void(const Round &)> &on_round);

}  // namespace simulate
