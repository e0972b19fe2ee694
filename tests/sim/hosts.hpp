// The computers of a simulation: the coordinator's with its disk, and the workers'.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/random.hpp"
#include "sim/ledger.hpp"
#include "sim/network.hpp"
#include "sim/operator.hpp"
#include "sim/sqlite_vfs.hpp"
#include "sim/trainer.hpp"
#include "sim/world.hpp"
#include "support/simulated_disk.hpp"

namespace parsyn::sim {

/// A promise that is broken on purpose, to see that it is found out.
enum class Breakage {
  none,
  late_journal,  ///< Answers before the journal has written.
  no_flush,      ///< Flushes do nothing.
  lost_object,   ///< A global model that the journal names is removed.
};

inline constexpr char kCoordinatorHost[] = "coordinator";

class CoordinatorHost {
 public:
  struct Parts {
    World &world;
    Network &network;
    Ledger &ledger;
    Operator &people;
  };
  CoordinatorHost(const Parts &parts, std::uint64_t seed, std::uint32_t keep_rounds, Breakage breakage);

  void start();
  /// By SIGKILL, or because the computer's power fails; it comes back after `down`. Where it is down already,
  /// nothing happens. From one of its own fibers it does not return.
  void kill(bool power_fails, Time down);
  /// The same, when the disk has been asked for so many further changes; 0: not any more.
  void kill_at_operation(std::uint64_t operations, bool power_fails, Time down);
  /// A clean end; it comes back after `down`.
  void stop(std::optional<Time> down);
  void fill_disk(bool full) { disk_is_full_ = full; }
  void fail_next_flush() { flush_fails_ = true; }
  void set_wall_clock(std::int64_t by_ms) { machine_.set_wall_clock(by_ms); }
  /// It serves.
  bool is_up() const { return up_; }
  bool is_running() const { return running_; }
  std::uint64_t starts() const { return starts_; }

 private:
  void run();
  void serve();
  int before_operation(const test::SimulatedDisk::Call &call);
  void come_back(Time after, bool power_failed);

  World &world_;
  Network &network_;
  Ledger &ledger_;
  Operator &operator_;
  const std::uint32_t keep_rounds_;
  const Breakage breakage_;
  core::Random random_;
  Machine machine_;
  test::SimulatedDisk disk_;
  SqliteVfs vfs_;
  bool running_ = false;
  bool up_ = false;
  bool stop_wanted_ = false;
  std::optional<Time> stop_lasts_;
  bool disk_is_full_ = false;
  bool flush_fails_ = false;
  std::uint64_t operations_left_ = 0;
  bool operation_power_ = false;
  Time operation_down_{0};
  std::uint64_t starts_ = 0;
};

class WorkerHost {
 public:
  struct Parts {
    World &world;
    Network &network;
    Ledger &ledger;
    const Plan &plan;
  };
  /// `cache`: on the real disk.
  WorkerHost(const Parts &parts, std::string name, std::size_t place, TrainerHabits &habits,
             std::filesystem::path cache);

  /// Where it does not run: with these credentials.
  void start(const WorkerCredentials &credentials);
  void kill();
  void stop() { stop_wanted_ = true; }
  void set_wall_clock(std::int64_t by_ms) { machine_.set_wall_clock(by_ms); }
  bool is_running() const { return running_; }
  const std::string &name() const { return name_; }

 private:
  void run(const WorkerCredentials &credentials);

  World &world_;
  Network &network_;
  Ledger &ledger_;
  const Plan &plan_;
  const std::string name_;
  const std::size_t place_;
  TrainerHabits &habits_;
  const std::filesystem::path cache_;
  Machine machine_;
  bool running_ = false;
  bool stop_wanted_ = false;
};

}  // namespace parsyn::sim
