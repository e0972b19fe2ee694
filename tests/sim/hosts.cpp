#include "sim/hosts.hpp"

#include <cerrno>
#include <utility>

#include "coordinator/make_coordinator.hpp"
#include "parsyn/error.hpp"
#include "parsyn/worker.hpp"
#include "sim/watched.hpp"
#include "storage/file_store.hpp"
#include "transport/make_http_transport.hpp"
#include "transport/partial_uploads.hpp"
#include "transport/routes.hpp"
#include "worker/make_worker.hpp"

namespace parsyn::sim {
namespace {

using Operation = test::SimulatedDisk::Operation;

constexpr char kUrl[] = "http://coordinator:8080";
constexpr char kFolder[] = "/state";
constexpr std::uint64_t kRandomSeedPart = 0x6469736B;  // "disk"
constexpr Time kLook{250};
constexpr Time kSupervisorPause{1'000};
/// A commit takes up to so long.
constexpr std::uint64_t kCommitMsMax = 40;

}  // namespace

CoordinatorHost::CoordinatorHost(const Parts &parts, std::uint64_t seed, std::uint32_t keep_rounds,
                                 Breakage breakage)
    : world_(parts.world),
      network_(parts.network),
      ledger_(parts.ledger),
      operator_(parts.people),
      keep_rounds_(keep_rounds),
      breakage_(breakage),
      random_(core::derive_seed({seed, kRandomSeedPart})),
      machine_(world_, kCoordinatorHost),
      vfs_(disk_, {[this] { return machine_.wall_ms(); }, [this] { return random_.bits(); }}) {
  disk_.make_folder(kFolder, system::kPrivateFolder);
  disk_.flush_folder("/");
  disk_.before_operation = [this](const auto &call) { return before_operation(call); };
  disk_.ignore_file_flushes = disk_.ignore_folder_flushes = breakage == Breakage::no_flush;
}

int CoordinatorHost::before_operation(const test::SimulatedDisk::Call &call) {
  if (!running_ || !test::SimulatedDisk::is_change(call.operation)) return 0;
  if (operations_left_ > 0 && --operations_left_ == 0) kill(operation_power_, operation_down_);
  const bool is_flush = call.operation == Operation::flush || call.operation == Operation::flush_folder;
  if (is_flush && flush_fails_) {
    flush_fails_ = false;
    world_.trace("coordinator: the flush of " + call.path.string() + " fails");
    return EIO;
  }
  const bool needs_space = call.operation == Operation::write || call.operation == Operation::create ||
                           call.operation == Operation::make_folder;
  return disk_is_full_ && needs_space ? ENOSPC : 0;
}

void CoordinatorHost::start() {
  if (running_) return;
  running_ = true;
  stop_wanted_ = false;
  ++starts_;
  world_.trace("coordinator: starts");
  ledger_.coordinator_started(moment_of(machine_));
  operator_.coordinator_restarted();
  machine_.start_process([this] {
    run();
    ledger_.coordinator_died(moment_of(machine_));
    world_.trace("coordinator: has ended");
    running_ = false;
    if (stop_wanted_ && !stop_lasts_) return;
    come_back(stop_wanted_ ? *stop_lasts_ : kSupervisorPause, false);
  });
}

void CoordinatorHost::come_back(Time after, bool power_failed) {
  world_.at(world_.now() + after, [this, power_failed] {
    if (power_failed) {
      disk_.crash(random_);
      machine_.reboot();
    } else {
      disk_.restart();
    }
    start();
  });
}

void CoordinatorHost::kill(bool power_fails, Time down) {
  if (!running_) return;
  world_.trace(std::string("coordinator: ") + (power_fails ? "loses its power" : "is killed"));
  ledger_.coordinator_died(moment_of(machine_));
  running_ = false;
  up_ = false;
  operations_left_ = 0;
  come_back(down, power_fails);
  machine_.kill();
}

void CoordinatorHost::kill_at_operation(std::uint64_t operations, bool power_fails, Time down) {
  operations_left_ = operations;
  operation_power_ = power_fails;
  operation_down_ = down;
}

void CoordinatorHost::stop(std::optional<Time> down) {
  if (!running_) return;
  stop_wanted_ = true;
  stop_lasts_ = down;
}

void CoordinatorHost::run() {
  try {
    serve();
  } catch (const Error &error) {
    up_ = false;
    world_.trace("coordinator: " + error.message());
    const bool disk = error.code() == ErrorCode::unavailable || error.code() == ErrorCode::io;
    if (!disk) ledger_.fail("the coordinator cannot start: " + error.message());
  }
}

void CoordinatorHost::serve() {
  const LogSink log = [this](const LogRecord &record) { world_.trace("coordinator: " + record.text); };
  std::shared_ptr<Journal> journal =
      make_sqlite_journal({.file = std::string(kFolder) + "/journal.db", .vfs = vfs_.name(), .log = log});
  ledger_.journal_opened(*journal, moment_of(machine_));
  if (breakage_ == Breakage::late_journal) journal = make_late_journal(std::move(journal));
  const auto some = [this](std::uint64_t of_thousand) {
    return world_.chance(of_thousand) ? Time(world_.draw(kCommitMsMax)) : Time{0};
  };
  journal = watch_journal(std::move(journal), ledger_, machine_,
                          {[some] { return some(300); }, [some] { return some(100); }});
  std::shared_ptr<ObjectStore> store = storage::make_file_store(std::string(kFolder) + "/store", disk_);
  if (breakage_ == Breakage::lost_object) store = make_forgetful_store(std::move(store));
  store = watch_store(std::move(store), ledger_);

  CoordinatorOptions options;
  options.store = store;
  options.journal = journal;
  options.log = log;
  options.keep_rounds = keep_rounds_;
  options.threads = 2;
  const std::unique_ptr<Coordinator> coordinator = coordinator::make_coordinator(options, machine_);
  ledger_.store_opened(*store);

  const auto signer = std::make_shared<const transport::UrlSigner>(limits::kUrlLifetime, machine_);
  transport::PartialUploads uploads(coordinator->worker_service(), machine_);
  std::vector<http::Route> routes = transport::worker_routes(coordinator->worker_service(), signer);
  for (http::Route &route : transport::object_routes(coordinator->worker_service(), signer, uploads))
    routes.push_back(std::move(route));
  network_.listen(kCoordinatorHost, machine_, std::move(routes));
  up_ = true;

  bool ending = false;
  std::vector<std::unique_ptr<system::Thread>> people;
  const auto often = [&](Time every, void (Operator::*act)(Coordinator &)) {
    people.push_back(machine_.start([this, &ending, &coordinator, every, act] {
      for (; !ending; pause(machine_, every)) (operator_.*act)(*coordinator);
    }));
  };
  often(Time(200), &Operator::work);
  often(Time(1'700), &Operator::observe);
  while (!stop_wanted_ && !operator_.wants_restart() && journal->failure().empty()) pause(machine_, kLook);

  up_ = false;
  ending = true;
  network_.stop_listening(kCoordinatorHost);
  coordinator->stop();
  people.clear();
}

WorkerHost::WorkerHost(const Parts &parts, std::string name, std::size_t place, TrainerHabits &habits,
                       std::filesystem::path cache)
    : world_(parts.world),
      network_(parts.network),
      ledger_(parts.ledger),
      plan_(parts.plan),
      name_(std::move(name)),
      place_(place),
      habits_(habits),
      cache_(std::move(cache)),
      machine_(world_, name_) {}

void WorkerHost::start(const WorkerCredentials &credentials) {
  if (running_) return;
  running_ = true;
  stop_wanted_ = false;
  world_.trace(name_ + ": starts");
  machine_.start_process([this, credentials] {
    run(credentials);
    running_ = false;
  });
}

void WorkerHost::kill() {
  if (!running_) return;
  world_.trace(name_ + ": is killed");
  running_ = false;
  machine_.kill();
}

void WorkerHost::run(const WorkerCredentials &credentials) {
  HttpTransportOptions transport;
  transport.url = kUrl;
  transport.token = credentials.token;
  transport.allow_plain_http = true;
  WorkerOptions options;
  options.transport = watch_transport(
      transport::make_http_transport(
          transport,
          [this](const http::HttpClientOptions &client) { return network_.client(machine_, name_, client); }),
      ledger_, world_, credentials.worker.id);
  options.trainer_factory = make_trainer_factory(habits_, machine_);
  options.cache = cache_;
  options.log = [this](const LogRecord &record) { world_.trace(name_ + ": " + record.text); };
  const std::uint64_t count = plan_.workers[place_].local_examples;
  Examples own{make_f32_tensor({count, 3}, std::vector<float>(count * 3)),
               Tensor{Dtype::i64, {count}, std::vector<std::byte>(count * 8)}};
  const auto data = std::make_shared<const Examples>(std::move(own));
  for (std::size_t number = 0; number < plan_.jobs.size(); ++number) {
    if (plan_.jobs[number].local) options.local_data[local_data_name(number)] = data;
  }
  const std::unique_ptr<Worker> worker = worker::make_worker(std::move(options), machine_);
  while (!worker->wait_for(kLook) && !stop_wanted_) {
  }
  if (stop_wanted_) return worker->stop();
  const std::string reason = worker->wait();
  world_.trace(name_ + ": has ended: " + reason);
  if (reason.find("newer process") == std::string::npos) ledger_.fail(name_ + " has given up: " + reason);
}

}  // namespace parsyn::sim
