// A Transport that calls the WorkerService directly: coordinator and workers in one process.
#include <condition_variable>
#include <mutex>

#include "parsyn/error.hpp"
#include "parsyn/transport.hpp"
#include "system/blocks.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace parsyn {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

/// What a parked poll and its caller share: the answer may come after the caller has given up.
struct PendingTask {
  std::mutex mutex;
  std::condition_variable changed;
  bool answered = false;
  bool interrupted = false;
  std::optional<Task> task;
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(WorkerService &service, std::string token)
      : service_(service), token_(std::move(token)) {}

  SessionGrant open_session(const SessionRequest &request) override {
    check_interrupted();
    return service_.open_session(worker(), request);
  }

  void close_session(std::uint64_t lease) override { service_.close_session(worker(), lease); }

  std::optional<Task> next_task(const TaskPoll &poll) override {
    const auto pending = std::make_shared<PendingTask>();
    {
      const std::lock_guard lock(mutex_);
      if (interrupted_) throw_interrupted();
      pending_ = pending;
    }
    const auto answer = [](PendingTask &to, std::optional<Task> task) {
      const std::lock_guard lock(to.mutex);
      if (to.answered) return;
      to.task = std::move(task);
      to.answered = true;
      to.changed.notify_all();
    };
    // A poll that the service drops is answered too: without a task.
    std::shared_ptr<PendingTask> dropped(pending.get(),
                                         [pending, answer](PendingTask *to) { answer(*to, {}); });
    service_.next_task(worker(), poll, [to = std::move(dropped), answer](std::optional<Task> task) {
      answer(*to, std::move(task));
    });
    std::unique_lock lock(pending->mutex);
    pending->changed.wait(lock, [&] { return pending->answered || pending->interrupted; });
    if (!pending->answered) throw_interrupted();
    return std::move(pending->task);
  }

  ReportReceipt report(const Report &report) override {
    check_interrupted();
    return service_.report(worker(), report);
  }

  HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) override {
    check_interrupted();
    return service_.heartbeat(worker(), heartbeat);
  }

  void download(const ObjectRef &object, const std::filesystem::path &file,
                const TransferProgress &progress) override {
    if (!service_.may_read(worker(), object.key))
      throw Error(ErrorCode::forbidden, "worker may not read " + object.key + " now");
    const auto source = service_.objects().open(object.key);
    system::AtomicFile out(file);
    system::Sha256 digest;
    copy(*source, progress, [&](std::span<const std::byte> bytes) {
      digest.update(bytes);
      out.write(bytes);
    });
    if (const std::string sha256 = digest.hex(); sha256 != object.sha256) {
      throw Error(ErrorCode::corrupt_data,
                  "object " + object.key + " has SHA-256 " + sha256 + "; the task says " + object.sha256);
    }
    out.commit();
  }

  void upload(const UploadSlot &slot, const std::filesystem::path &file,
              const TransferProgress &progress) override {
    const std::uint64_t bytes_max = service_.may_write(worker(), slot.key);
    if (bytes_max == 0)
      throw Error(ErrorCode::forbidden, "worker may not write " + slot.key + " now: its round is over");
    const system::FileSource source(file);
    if (source.size() > bytes_max) {
      throw Error(ErrorCode::too_large, "the update has " + std::to_string(source.size()) +
                                            " bytes; at most " + std::to_string(bytes_max) + " are taken");
    }
    const auto writer = service_.objects().create(slot.key);
    copy(source, progress, [&](std::span<const std::byte> bytes) { writer->write(bytes); });
    if (service_.may_write(worker(), slot.key) == 0)
      throw Error(ErrorCode::forbidden, "the round ended during the upload");
    writer->commit();
  }

  void interrupt() override {
    std::shared_ptr<PendingTask> pending;
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = true;
      pending = pending_.lock();
    }
    if (!pending) return;
    const std::lock_guard lock(pending->mutex);
    pending->interrupted = true;
    pending->changed.notify_all();
  }

 private:
  Id worker() { return service_.authenticate(token_); }

  [[noreturn]] static void throw_interrupted() {
    throw Error(ErrorCode::cancelled, "the transport has been interrupted");
  }

  void check_interrupted() {
    const std::lock_guard lock(mutex_);
    if (interrupted_) throw_interrupted();
  }

  template <typename Take>
  void copy(const ByteSource &source, const TransferProgress &progress, const Take &take) {
    system::for_each_block(source, kCopyBytes, [&](std::span<const std::byte> piece, std::uint64_t offset) {
      check_interrupted();
      if (progress && !progress(offset, source.size()))
        throw Error(ErrorCode::cancelled, "the transfer was cancelled");
      take(piece);
    });
  }

  WorkerService &service_;
  const std::string token_;
  std::mutex mutex_;
  bool interrupted_ = false;
  std::weak_ptr<PendingTask> pending_;
};

}  // namespace

std::unique_ptr<Transport> make_in_process_transport(WorkerService &service, std::string token) {
  return std::make_unique<InProcessTransport>(service, std::move(token));
}

}  // namespace parsyn
