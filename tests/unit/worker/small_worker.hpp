// A worker of a SmallJob's coordinator, in its process, that does not wait long between its tries.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "parsyn/worker.hpp"
#include "support/small_job.hpp"

namespace parsyn::test {

inline WorkerOptions options_for(const SmallJob &small, std::shared_ptr<TrainerFactory> factory,
                                 const std::string &token) {
  WorkerOptions options;
  options.transport = make_in_process_transport(small.coordinator->worker_service(), token);
  options.trainer_factory = std::move(factory);
  options.backoff_first = std::chrono::milliseconds(5);
  options.backoff_max = std::chrono::milliseconds(50);
  return options;
}

inline std::string new_token(const SmallJob &small) {
  return small.coordinator->add_worker({"w", WorkerKind::own}).token;
}

}  // namespace parsyn::test
