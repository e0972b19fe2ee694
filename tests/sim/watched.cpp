#include "sim/watched.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "system/files.hpp"

namespace parsyn::sim {
namespace {

class WatchedJournal final : public Journal {
 public:
  WatchedJournal(std::shared_ptr<Journal> journal, Ledger &ledger, Machine &machine, CommitPauses pauses)
      : journal_(std::move(journal)), ledger_(ledger), machine_(machine), pauses_(std::move(pauses)) {}

  void commit(std::span<const JournalWrite> batch) override {
    ledger_.batch_begins(batch, moment_of(machine_));
    pause(machine_, pauses_.before());
    try {
      journal_->commit(batch);
    } catch (const Error &error) {
      ledger_.batch_ends(error.code() == ErrorCode::unavailable ? Ledger::Outcome::not_kept
                                                                : Ledger::Outcome::unknown);
      throw;
    }
    ledger_.batch_ends(Ledger::Outcome::kept);
    pause(machine_, pauses_.after());
  }

  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    journal_->for_each(table, range, visit);
  }
  std::string failure() const override { return journal_->failure(); }

 private:
  const std::shared_ptr<Journal> journal_;
  Ledger &ledger_;
  Machine &machine_;
  const CommitPauses pauses_;
};

class WatchedWriter final : public ObjectWriter {
 public:
  WatchedWriter(std::unique_ptr<ObjectWriter> writer, Ledger &ledger)
      : writer_(std::move(writer)), ledger_(ledger) {}

  void write(std::span<const std::byte> bytes) override {
    writer_->write(bytes);
    bytes_.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }

  ObjectInfo commit() override {
    // Before: it may be there although the call does not return.
    ledger_.object_is_written(bytes_);
    return writer_->commit();
  }

 private:
  std::unique_ptr<ObjectWriter> writer_;
  Ledger &ledger_;
  std::string bytes_;
};

class WatchedStore final : public ObjectStore {
 public:
  WatchedStore(std::shared_ptr<ObjectStore> store, Ledger &ledger)
      : store_(std::move(store)), ledger_(ledger) {}

  std::unique_ptr<ObjectWriter> create(std::string_view key) override {
    return std::make_unique<WatchedWriter>(store_->create(key), ledger_);
  }
  std::unique_ptr<ByteSource> open(std::string_view key) const override { return store_->open(key); }
  ObjectInfo stat(std::string_view key) const override { return store_->stat(key); }
  std::vector<std::string> list(std::string_view prefix) const override { return store_->list(prefix); }
  void remove(std::string_view key) override { store_->remove(key); }

 private:
  const std::shared_ptr<ObjectStore> store_;
  Ledger &ledger_;
};

bool is_finite(const StateDict &state) {
  for (const auto &[name, tensor] : state) {
    if (tensor.dtype != Dtype::f32) continue;
    for (const float element : f32_elements(tensor)) {
      if (!std::isfinite(element)) return false;
    }
  }
  return true;
}

class WatchedTransport final : public Transport {
 public:
  WatchedTransport(std::unique_ptr<Transport> transport, Ledger &ledger, World &world, Id worker)
      : transport_(std::move(transport)), ledger_(ledger), world_(world), worker_(worker) {}

  SessionGrant open_session(const SessionRequest &request) override {
    const SessionGrant grant = transport_->open_session(request);
    say("has lease " + std::to_string(grant.lease));
    return grant;
  }
  void close_session(std::uint64_t lease) override { transport_->close_session(lease); }
  std::optional<Task> next_task(const TaskPoll &poll) override {
    std::optional<Task> task = transport_->next_task(poll);
    if (task) {
      say("has task " + std::to_string(task->task_id) + " of job " + std::to_string(task->job_id) +
          " round " + std::to_string(task->round));
    }
    return task;
  }

  ReportReceipt report(const Report &report) override {
    const auto known = finite_.find(report.key);
    ledger_.report_is_sent(worker_, report, known == finite_.end() || known->second);
    const ReportReceipt receipt = transport_->report(report);
    say("reports task " + std::to_string(report.task_id) + ": " +
        (receipt.accepted ? std::string(receipt.duplicate ? "accepted again" : "accepted") : receipt.code) +
        (report.failure.empty() ? "" : " (failed: " + report.failure + ")"));
    if (receipt.accepted) ledger_.report_is_accepted(worker_, report, receipt.duplicate);
    return receipt;
  }

  HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) override { return transport_->heartbeat(heartbeat); }
  void download(const ObjectRef &object, const std::filesystem::path &file,
                const TransferProgress &progress) override {
    transport_->download(object, file, progress);
  }
  void upload(const UploadSlot &slot, const std::filesystem::path &file,
              const TransferProgress &progress) override {
    finite_[slot.key] = is_finite(read_safetensors(system::FileSource(file)));
    transport_->upload(slot, file, progress);
  }
  void interrupt() override { transport_->interrupt(); }

 private:
  void say(const std::string &what) { world_.trace("worker " + std::to_string(worker_) + " " + what); }

  const std::unique_ptr<Transport> transport_;
  Ledger &ledger_;
  World &world_;
  const Id worker_;
  std::map<std::string, bool> finite_;
};

class LateJournal final : public Journal {
 public:
  explicit LateJournal(std::shared_ptr<Journal> journal) : journal_(std::move(journal)) {}
  ~LateJournal() override {
    try {
      write_held();
    } catch (const Error &) {
      // As broken as it is meant to be.
    }
  }

  void commit(std::span<const JournalWrite> batch) override {
    write_held();
    held_.assign(batch.begin(), batch.end());
  }
  void for_each(std::string_view table, const KeyRange &range, const Visit &visit) const override {
    write_held();
    journal_->for_each(table, range, visit);
  }
  std::string failure() const override { return journal_->failure(); }

 private:
  void write_held() const {
    if (held_.empty()) return;
    journal_->commit(held_);
    held_.clear();
  }

  const std::shared_ptr<Journal> journal_;
  mutable std::vector<JournalWrite> held_;
};

class ForgetfulStore final : public ObjectStore {
 public:
  explicit ForgetfulStore(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}

  std::unique_ptr<ObjectWriter> create(std::string_view key) override {
    if (key.find("/global-") != std::string_view::npos) {
      if (!last_.empty()) store_->remove(last_);
      last_ = key;
    }
    return store_->create(key);
  }
  std::unique_ptr<ByteSource> open(std::string_view key) const override { return store_->open(key); }
  ObjectInfo stat(std::string_view key) const override { return store_->stat(key); }
  std::vector<std::string> list(std::string_view prefix) const override { return store_->list(prefix); }
  void remove(std::string_view key) override { store_->remove(key); }

 private:
  const std::shared_ptr<ObjectStore> store_;
  std::string last_;
};

}  // namespace

void pause(Machine &machine, Time duration) {
  if (duration <= Time{0}) return;
  const auto signal = machine.make_signal();
  std::mutex mutex;
  std::unique_lock lock(mutex);
  machine.wait_until(*signal, lock, machine.now() + duration, [] { return false; });
}

Moment moment_of(const Machine &machine) { return {machine.now(), machine.boot_id()}; }

std::shared_ptr<Journal> watch_journal(std::shared_ptr<Journal> journal, Ledger &ledger, Machine &machine,
                                       CommitPauses pauses) {
  return std::make_shared<WatchedJournal>(std::move(journal), ledger, machine, std::move(pauses));
}

std::shared_ptr<ObjectStore> watch_store(std::shared_ptr<ObjectStore> store, Ledger &ledger) {
  return std::make_shared<WatchedStore>(std::move(store), ledger);
}

std::unique_ptr<Transport> watch_transport(std::unique_ptr<Transport> transport, Ledger &ledger, World &world,
                                           Id worker) {
  return std::make_unique<WatchedTransport>(std::move(transport), ledger, world, worker);
}

std::shared_ptr<Journal> make_late_journal(std::shared_ptr<Journal> journal) {
  return std::make_shared<LateJournal>(std::move(journal));
}

std::shared_ptr<ObjectStore> make_forgetful_store(std::shared_ptr<ObjectStore> store) {
  return std::make_shared<ForgetfulStore>(std::move(store));
}

}  // namespace parsyn::sim
