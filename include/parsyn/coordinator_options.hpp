// How a coordinator is set up. Everything but the store has a default.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "parsyn/journal.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/log.hpp"
#include "parsyn/object_store.hpp"
#include "parsyn/state_dict.hpp"

namespace parsyn {

struct CoordinatorOptions {
  std::shared_ptr<ObjectStore> store = {};  ///< Required.
  /// Empty: in memory. With a journal that outlives the process the coordinator goes on where it was: the
  /// store must outlive it too, and belongs to this journal alone.
  std::shared_ptr<Journal> journal = {};
  LogSink log = {};
  std::chrono::milliseconds heartbeat_interval = limits::kHeartbeatInterval;
  std::chrono::milliseconds lease_duration = limits::kLeaseDuration;
  std::chrono::milliseconds progress_interval = limits::kProgressInterval;
  std::chrono::milliseconds join_window = limits::kJoinWindow;
  /// A live worker whose task stays in one phase for so long, without a step, is reported as stalled: it
  /// hangs, or evaluates or transfers much. Nothing else happens to it.
  std::chrono::milliseconds stall_timeout = limits::kStallTimeout;
  std::uint64_t examples_per_worker_max = limits::kExamplesPerWorkerMax;
  std::uint32_t keep_rounds =
      limits::kKeepRoundsDefault;  ///< Global models of so many rounds are kept, and the best.
  unsigned threads = 0;            ///< For checking and averaging updates; 0: one per core.
  /// Reads the weights of a TorchScript file, as parsyn::torchscript_state_dict does. Empty: such models are
  /// refused.
  std::function<StateDict(const std::filesystem::path &)> torchscript_importer = {};
};

}  // namespace parsyn
