#include "sim/simulation.hpp"

#include <algorithm>
#include <system_error>

#include "sim/plan.hpp"

namespace parsyn::sim {
namespace {

constexpr std::int64_t kDayMs = 24 * 3'600 * 1'000;
constexpr Time kWorkerCheck{5'000};
/// After the last fault every job ends within so long.
constexpr Time kLivenessBound = std::chrono::hours(1);
/// All processes end within so long when they are told to.
constexpr Time kEndBound = std::chrono::minutes(3);

class Simulation {
 public:
  explicit Simulation(const SimulationOptions &options)
      : options_(options),
        plan_(make_plan(options.seed)),
        world_(options.seed),
        network_(world_),
        ledger_(world_, rules()),
        operator_(plan_, world_, ledger_, [this](std::size_t place) { worker_registered(place); }),
        coordinator_({world_, network_, ledger_, operator_}, options.seed, keep_rounds(), options.breakage) {
    world_.print_trace(options.print_trace);
    seed_sqlite(options.seed);
    habits_.resize(plan_.workers.size());
    for (std::size_t place = 0; place < plan_.workers.size(); ++place) {
      const WorkerPlan &worker = plan_.workers[place];
      TrainerHabits &habits = habits_[place];
      habits.step = worker.step;
      habits.fails_of_thousand = worker.fails_of_thousand;
      habits.nan_of_thousand = worker.nan_of_thousand;
      habits.seed = core::derive_seed({options.seed, place});
    }
    for (std::size_t place = 0; place < plan_.workers.size(); ++place) {
      workers_.push_back(make_worker("worker-" + std::to_string(place), place));
      seconds_.push_back(make_worker("second-" + std::to_string(place), place));
    }
  }

  ~Simulation() {
    std::error_code ignored;
    std::filesystem::remove_all(options_.scratch, ignored);
  }

  SimulationResult run() {
    coordinator_.start();
    if (options_.with_faults) {
      for (const FaultPlan &fault : plan_.faults) world_.at(fault.at, [this, &fault] { befall(fault); });
    }
    world_.at(plan_.calm, [this] { calm(); });
    const auto broken = [this] { return !ledger_.violation().empty(); };
    const bool ended = world_.run(plan_.calm + kLivenessBound,
                                  [&] { return broken() || (is_calm_ && operator_.is_done()); });
    if (!ended && !broken()) ledger_.fail(unfinished());
    if (!broken()) end();
    SimulationResult result;
    result.violation = ledger_.violation();
    result.digest = world_.digest();
    result.simulated = world_.now();
    result.starts = coordinator_.starts();
    result.commits = ledger_.commits();
    result.rounds = ledger_.rounds();
    result.reports = ledger_.acknowledged();
    for (std::size_t number = 0; number < plan_.jobs.size(); ++number) {
      const auto state = ledger_.state_of(operator_.job(number));
      result.models.push_back((state ? std::string(job_state_name(*state)) : "absent") + " " +
                              ledger_.global_sha256(operator_.job(number)));
    }
    return result;
  }

 private:
  std::uint32_t keep_rounds() const { return 1 + static_cast<std::uint32_t>(options_.seed % 3); }

  Ledger::Rules rules() const {
    return {.may_corrupt = options_.with_faults && plan_.corrupts,
            .may_stall = options_.with_faults && plan_.disk_fails,
            .keep_rounds = keep_rounds(),
            .commit_pause_max = Time(100)};
  }

  std::unique_ptr<WorkerHost> make_worker(const std::string &name, std::size_t place) {
    return std::make_unique<WorkerHost>(WorkerHost::Parts{world_, network_, ledger_, plan_}, name, place,
                                        habits_[place], options_.scratch / name);
  }

  void worker_registered(std::size_t place) {
    const Time when = std::max(world_.now(), plan_.workers[place].starts);
    world_.at(when, [this, place] { start_worker(place); });
  }

  void start_worker(std::size_t place) {
    if (const auto &credentials = operator_.worker(place); credentials && !ending_)
      workers_[place]->start(*credentials);
  }

  void befall(const FaultPlan &fault) {
    using Kind = FaultPlan::Kind;
    world_.trace("fault: " + std::string(fault_name(fault.kind)));
    const auto place = static_cast<std::size_t>(fault.worker);
    const auto over = [this, &fault](std::function<void()> what) {
      world_.at(std::min(world_.now() + fault.lasts, plan_.calm), std::move(what));
    };
    switch (fault.kind) {
      case Kind::kill_coordinator:
      case Kind::crash_coordinator:
        return coordinator_.kill(fault.kind == Kind::crash_coordinator, fault.lasts);
      case Kind::kill_at_operation:
      case Kind::crash_at_operation:
        return coordinator_.kill_at_operation(1 + fault.number % 60, fault.kind == Kind::crash_at_operation,
                                              fault.lasts);
      case Kind::stop_coordinator:
        return coordinator_.stop(fault.lasts);
      case Kind::disk_full:
        coordinator_.fill_disk(true);
        return over([this] { coordinator_.fill_disk(false); });
      case Kind::flush_fails:
        return coordinator_.fail_next_flush();
      case Kind::set_clock: {
        const std::int64_t by = fault.number % 2 == 0 ? kDayMs : -kDayMs;
        if (plan_.coordinator_only || fault.number % 3 > 0) return coordinator_.set_wall_clock(by);
        return workers_[place]->set_wall_clock(by);
      }
      case Kind::kill_worker:
        workers_[place]->kill();
        return over([this, place] { start_worker(place); });
      case Kind::second_process:
        if (!operator_.worker(place)) return;
        seconds_[place]->start(*operator_.worker(place));
        return over([this, place] {
          seconds_[place]->kill();
          start_worker(place);
        });
      case Kind::bad_network:
        set_network(fault, bad_network(fault.number));
        return over([this, &fault] { set_network(fault, {}); });
      case Kind::partition: {
        const std::string worker = workers_[place]->name();
        const bool outward = fault.number % 2 == 0;
        const std::string from = outward ? kCoordinatorHost : worker;
        const std::string to = outward ? worker : kCoordinatorHost;
        network_.partition(from, to, true);
        return over([this, from, to] { network_.partition(from, to, false); });
      }
    }
  }

  static Network::Faults bad_network(std::uint64_t number) {
    Network::Faults faults;
    core::Random draw(number);
    const auto some = [&](std::uint64_t most) { return draw.below(2) == 0 ? 0 : draw.below(most); };
    faults.delay_max = Time(1 + some(800));
    faults.late = some(40);
    faults.lose = some(100);
    faults.cut = some(150);
    faults.duplicate = some(200);
    faults.corrupt = some(150);
    faults.gateway = some(150);
    return faults;
  }

  void set_network(const FaultPlan &fault, const Network::Faults &faults) {
    if (fault.number % 3 == 0) return network_.set_faults(faults);
    const std::string worker = workers_[static_cast<std::size_t>(fault.worker)]->name();
    network_.set_faults(worker, kCoordinatorHost, faults);
    network_.set_faults(kCoordinatorHost, worker, faults);
  }

  void calm() {
    world_.trace("all is calm from now on");
    is_calm_ = true;
    network_.calm();
    coordinator_.fill_disk(false);
    coordinator_.kill_at_operation(0, false, Time{0});
    for (std::size_t place = 0; place < workers_.size(); ++place) {
      habits_[place].calm = true;
      seconds_[place]->kill();
    }
    look_after_workers();
  }

  /// One whose place a second process had taken may learn of it later, and end.
  void look_after_workers() {
    if (ending_) return;
    for (std::size_t place = 0; place < workers_.size(); ++place) start_worker(place);
    world_.at(world_.now() + kWorkerCheck, [this] { look_after_workers(); });
  }

  std::string unfinished() const {
    std::string text = "not ended " + std::to_string(kLivenessBound.count()) + " ms after the last fault:";
    for (std::size_t number = 0; number < plan_.jobs.size(); ++number) {
      const auto state = ledger_.state_of(operator_.job(number));
      text += " job " + std::to_string(operator_.job(number)) + " is " +
              (state ? std::string(job_state_name(*state)) : "absent") + ";";
    }
    return text;
  }

  /// A clean start, a look at everything, and a clean end.
  void end() {
    const auto broken = [this] { return !ledger_.violation().empty(); };
    const auto wait = [&](const char *what, const std::function<bool()> &done) {
      if (!broken() && !world_.run(world_.now() + kEndBound, [&] { return broken() || done(); }))
        ledger_.fail(std::string("after three minutes: ") + what);
    };
    const std::uint64_t starts = coordinator_.starts();
    coordinator_.stop(Time(500));
    wait("the coordinator has not started again",
         [&] { return coordinator_.starts() > starts && coordinator_.is_up(); });
    const std::uint64_t observations = operator_.observations();
    wait("nothing can be seen", [&] { return operator_.observations() > observations + 1; });
    ledger_.check_end();
    ending_ = true;
    for (const auto &worker : workers_) worker->stop();
    wait("a worker has not ended", [&] {
      return std::ranges::none_of(workers_, [](const auto &worker) { return worker->is_running(); });
    });
    coordinator_.stop(std::nullopt);
    wait("the coordinator has not ended", [&] { return !coordinator_.is_running(); });
  }

  const SimulationOptions options_;
  const Plan plan_;
  World world_;
  Network network_;
  Ledger ledger_;
  Operator operator_;
  CoordinatorHost coordinator_;
  std::vector<TrainerHabits> habits_;
  std::vector<std::unique_ptr<WorkerHost>> workers_;
  std::vector<std::unique_ptr<WorkerHost>> seconds_;
  bool is_calm_ = false;
  bool ending_ = false;
};

}  // namespace

SimulationResult simulate(const SimulationOptions &options) { return Simulation(options).run(); }

SimulationResult simulate_and_compare(const SimulationOptions &options) {
  SimulationResult result = simulate(options);
  if (!result.violation.empty() || !make_plan(options.seed).coordinator_only) return result;
  SimulationOptions undisturbed = options;
  undisturbed.with_faults = false;
  const SimulationResult expected = simulate(undisturbed);
  if (!expected.violation.empty()) {
    result.violation = "without faults: " + expected.violation;
  } else if (expected.models != result.models) {
    result.violation = "the models are not those of a run without faults:";
    for (std::size_t number = 0; number < result.models.size(); ++number)
      result.violation += " " + result.models[number] + " for " + expected.models[number] + ";";
  }
  return result;
}

}  // namespace parsyn::sim
