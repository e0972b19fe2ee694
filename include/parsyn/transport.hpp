// How a worker reaches a coordinator: the worker's side (Transport), the coordinator's (WorkerService); what
// they say is in worker_messages.hpp.
//
// A host with a transport of its own implements Transport on the worker's side, and hands what arrives to the
// Coordinator's WorkerService on the other. parsyn brings two: in-process, and HTTP(S) (http.hpp).
//
// A worker opens a session and gets a lease, which each heartbeat renews. It asks for a task, performs it and
// reports. A session of another process (`instance`) with the same token supersedes the older one: the older
// one's calls throw Error(conflict) with a fault whose code is "lease_superseded", and the older process
// stops; "lease_expired" means: open a session again. The same process that asks again has the same session.
//
// Thread-safety: both interfaces may be called from any thread, several calls at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "parsyn/object_store.hpp"
#include "parsyn/worker_messages.hpp"

namespace parsyn {

/// The coordinator's side. Each call names the worker that the transport has authenticated.
class WorkerService {
 public:
  virtual ~WorkerService() = default;

  /// Throws Error(unauthorized) for an unknown or revoked token.
  virtual Id authenticate(std::string_view token) = 0;
  virtual SessionGrant open_session(Id worker, const SessionRequest &request) = 0;
  /// Ends the lease at once: a clean goodbye.
  virtual void close_session(Id worker, std::uint64_t lease) = 0;
  /// Calls `answer` once, from any thread, with a task or, when the wait is over, without.
  virtual void next_task(Id worker, const TaskPoll &poll,
                         std::function<void(std::optional<Task>)> answer) = 0;
  virtual ReportReceipt report(Id worker, const Report &report) = 0;
  virtual HeartbeatAnswer heartbeat(Id worker, const Heartbeat &heartbeat) = 0;
  /// Whether this worker may read, or write, this object now: its own partition, the current weights, its own
  /// slot.
  virtual bool may_read(Id worker, std::string_view key) const = 0;
  /// The bytes that it may write; 0: none.
  virtual std::uint64_t may_write(Id worker, std::string_view key) const = 0;
  virtual ObjectStore &objects() = 0;
};

/// Called with bytes so far and in all; returning false ends the transfer with Error(cancelled).
using TransferProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// The worker's side. Calls block; each throws Error: unavailable and timeout (try again, after
/// Error::retry_after() where the peer has said it), unauthorized, conflict (see above), protocol (another
/// version), cancelled (after interrupt).
class Transport {
 public:
  virtual ~Transport() = default;

  virtual SessionGrant open_session(const SessionRequest &request) = 0;
  virtual void close_session(std::uint64_t lease) = 0;
  virtual std::optional<Task> next_task(const TaskPoll &poll) = 0;
  virtual ReportReceipt report(const Report &report) = 0;
  virtual HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) = 0;
  /// Makes `file` hold exactly the object, checked by length and SHA-256; what an earlier, broken call left
  /// under the same name is gone on with. Throws also: corrupt_data (the digest differs), not_found,
  /// forbidden, io.
  virtual void download(const ObjectRef &object, const std::filesystem::path &file,
                        const TransferProgress &progress) = 0;
  /// Puts `file` into the slot. Throws also: forbidden (the slot is gone: the round is over), too_large, io,
  /// corrupt_data (something else than the file has arrived).
  virtual void upload(const UploadSlot &slot, const std::filesystem::path &file,
                      const TransferProgress &progress) = 0;
  /// Every running and later call but close_session throws Error(cancelled). May be called from any thread,
  /// repeatedly.
  virtual void interrupt() = 0;
};

/// Calls `service` directly. It must outlive the transport.
std::unique_ptr<Transport> make_in_process_transport(WorkerService &service, std::string token);

}  // namespace parsyn
