// A worker that does exactly what a test tells it: polls, uploads, reports. No threads, no trainer.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "parsyn/coordinator.hpp"
#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "parsyn/transport.hpp"
#include "support/temporary_folder.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace parsyn::test {

class ManualWorker {
 public:
  ManualWorker(std::unique_ptr<Transport> transport, std::string instance = "instance")
      : transport_(std::move(transport)), instance_(std::move(instance)) {}

  /// Registers a new worker and connects it in-process.
  static ManualWorker join(Coordinator &coordinator, const std::string &name = "worker",
                           WorkerKind kind = WorkerKind::own) {
    const WorkerCredentials credentials = coordinator.add_worker({name, kind});
    ManualWorker worker(make_in_process_transport(coordinator.worker_service(), credentials.token));
    worker.token_ = credentials.token;
    worker.connect();
    return worker;
  }

  /// Goes on with another coordinator (the same one, started again), under the lease that it has.
  void reach(Coordinator &coordinator) {
    transport_ = make_in_process_transport(coordinator.worker_service(), token_);
  }

  SessionGrant connect() {
    SessionRequest request;
    request.instance = instance_;
    request.capabilities = capabilities;
    request.local_datasets = local_datasets;
    grant_ = transport_->open_session(request);
    return grant_;
  }

  Id id() const { return grant_.worker_id; }
  std::uint64_t lease() const { return grant_.lease; }
  const std::string &token() const { return token_; }
  Transport &transport() { return *transport_; }

  /// The next task; throws when none comes within ten seconds.
  Task task() {
    for (int tries = 0; tries < 2; ++tries) {
      if (auto task = transport_->next_task({.lease = grant_.lease, .wait = std::chrono::seconds(5)}))
        return *task;
    }
    throw std::runtime_error("no task came for worker " + std::to_string(id()));
  }
  /// Whether a task is there now.
  bool has_task() {
    return transport_->next_task({.lease = grant_.lease, .wait = std::chrono::milliseconds(0)}).has_value();
  }

  StateDict weights(const Task &task) {
    const auto file = folder_->path() / "weights.safetensors";
    transport_->download(task.global, file, {});
    return read_safetensors(system::FileSource(file));
  }

  /// Uploads `state` and returns the report that states it; nothing is sent.
  Report upload(const Task &task, const StateDict &state) {
    MemorySink sink;
    write_safetensors(state, sink);
    return upload_bytes(task, sink.bytes());
  }

  Report upload_bytes(const Task &task, const std::vector<std::byte> &bytes) {
    const auto file = folder_->path() / "update.safetensors";
    system::write_text_file(file, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
    transport_->upload(*task.upload, file, {});
    Report report = report_for(task);
    report.key = task.upload->key;
    report.sha256 = system::sha256_hex(system::FileSource(file));
    report.bytes = bytes.size();
    report.num_examples = task.num_examples;
    return report;
  }

  ReportReceipt train(const Task &task, const StateDict &state) {
    return transport_->report(upload(task, state));
  }

  ReportReceipt fail(const Task &task, const std::string &reason) {
    Report report = report_for(task);
    report.failure = reason;
    return transport_->report(report);
  }

  /// What it says while it does the first step of the task; nothing is sent.
  Heartbeat training(const Task &task) const {
    Heartbeat heartbeat{.lease = grant_.lease, .progress = TaskProgress{}};
    heartbeat.progress->task_id = task.task_id;
    heartbeat.progress->job_id = task.job_id;
    heartbeat.progress->round = task.round;
    heartbeat.progress->phase = "training";
    heartbeat.progress->steps = task.steps;
    return heartbeat;
  }

  Report report_for(const Task &task) const {
    Report report;
    report.lease = grant_.lease;
    report.task_id = task.task_id;
    report.job_id = task.job_id;
    report.round = task.round;
    return report;
  }

  TrainerCapabilities capabilities{
      .model_kinds = {"custom", "mlp"}, .bf16 = false, .lora = false, .device = "cpu"};
  std::vector<LocalDataset> local_datasets;

 private:
  std::unique_ptr<Transport> transport_;
  std::string instance_;
  std::string token_;
  SessionGrant grant_;
  std::unique_ptr<TemporaryFolder> folder_ = std::make_unique<TemporaryFolder>();
};

}  // namespace parsyn::test
