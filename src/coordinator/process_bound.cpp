#include "coordinator/process_bound.hpp"

#include <utility>

#include "system/owning_process.hpp"

namespace parsyn::coordinator {
namespace {

class ProcessBound final : public Coordinator, private WorkerService {
 public:
  explicit ProcessBound(std::unique_ptr<Coordinator> coordinator) : coordinator_(std::move(coordinator)) {}
  ~ProcessBound() override {
    // Its threads cannot be joined here, and its locks may be held for ever.
    if (!process_.is_this()) static_cast<void>(coordinator_.release());
  }

  WorkerCredentials add_worker(const WorkerSpec &spec, const std::string &idempotency_key) override {
    return here().add_worker(spec, idempotency_key);
  }
  void remove_worker(Id id) override { here().remove_worker(id); }
  std::vector<WorkerInfo> workers() const override { return here().workers(); }
  WorkerInfo worker(Id id) const override { return here().worker(id); }
  DatasetInfo add_dataset(const DatasetSpec &spec, const std::string &idempotency_key) override {
    return here().add_dataset(spec, idempotency_key);
  }
  DatasetInfo add_dataset(const std::string &name, const Examples &train,
                          const std::optional<Examples> &validation) override {
    return here().add_dataset(name, train, validation);
  }
  std::vector<DatasetInfo> datasets() const override { return here().datasets(); }
  DatasetInfo dataset(Id id) const override { return here().dataset(id); }
  ModelInfo add_model(const ModelSpec &spec, const std::string &idempotency_key) override {
    return here().add_model(spec, idempotency_key);
  }
  ModelInfo add_model(const ModelSpec &spec, const StateDict &weights) override {
    return here().add_model(spec, weights);
  }
  std::vector<ModelInfo> models() const override { return here().models(); }
  ModelInfo model(Id id) const override { return here().model(id); }

  std::vector<Fault> check(const JobConfig &config) const override { return here().check(config); }
  std::vector<Fault> check_registry(const JobConfig &config,
                                    const std::vector<std::string> &unread) const override {
    return here().check_registry(config, unread);
  }
  JobStatus submit(const JobConfig &config, const std::string &idempotency_key) override {
    return here().submit(config, idempotency_key);
  }
  JobStatus job(Id id) const override { return here().job(id); }
  JobState job_state(Id id) const override { return here().job_state(id); }
  std::vector<JobStatus> jobs(Id after, std::size_t count_max) const override {
    return here().jobs(after, count_max);
  }
  JobStatus stop_job(Id id) override { return here().stop_job(id); }
  JobStatus cancel_job(Id id) override { return here().cancel_job(id); }
  JobStatus wait(Id id, std::chrono::milliseconds timeout) const override { return here().wait(id, timeout); }
  ObjectInfo job_model(Id id, const RoundChoice &round) const override { return here().job_model(id, round); }
  std::vector<LossSeries> losses(Id id, std::optional<std::uint32_t> round) const override {
    return here().losses(id, round);
  }
  std::vector<LossSeries> losses_after(Id id, const LossPlace &after, std::size_t count_max,
                                       std::optional<std::uint32_t> round) const override {
    return here().losses_after(id, after, count_max, round);
  }

  std::vector<Event> events_after(Id job, std::uint64_t sequence, std::size_t count_max) const override {
    return here().events_after(job, sequence, count_max);
  }
  std::uint64_t last_event(Id job) const override { return here().last_event(job); }
  std::shared_ptr<void> subscribe(Id job, std::function<void()> notify) const override {
    return here().subscribe(job, std::move(notify));
  }

  std::string failure() const override { return here().failure(); }
  WorkerService &worker_service() override { return *this; }
  ObjectStore &store() override { return coordinator_->store(); }
  void stop() override {
    if (process_.is_this()) coordinator_->stop();
  }

 private:
  Id authenticate(std::string_view token) override { return service().authenticate(token); }
  SessionGrant open_session(Id worker, const SessionRequest &request) override {
    return service().open_session(worker, request);
  }
  void close_session(Id worker, std::uint64_t lease) override { service().close_session(worker, lease); }
  void next_task(Id worker, const TaskPoll &poll, std::function<void(std::optional<Task>)> answer) override {
    service().next_task(worker, poll, std::move(answer));
  }
  ReportReceipt report(Id worker, const Report &report) override { return service().report(worker, report); }
  HeartbeatAnswer heartbeat(Id worker, const Heartbeat &heartbeat) override {
    return service().heartbeat(worker, heartbeat);
  }
  bool may_read(Id worker, std::string_view key) const override { return service().may_read(worker, key); }
  std::uint64_t may_write(Id worker, std::string_view key) const override {
    return service().may_write(worker, key);
  }
  ObjectStore &objects() override { return coordinator_->worker_service().objects(); }

  Coordinator &here() const {
    process_.check("the coordinator");
    return *coordinator_;
  }
  WorkerService &service() const { return here().worker_service(); }

  const system::OwningProcess process_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace

std::unique_ptr<Coordinator> bind_to_process(std::unique_ptr<Coordinator> coordinator) {
  return std::make_unique<ProcessBound>(std::move(coordinator));
}

}  // namespace parsyn::coordinator
