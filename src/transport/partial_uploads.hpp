// Uploads that broke off: what has come of an object is kept for a while, so that its sender goes on from
// there.
//
// There is one upload of a slot at a time, and the newest request has it: another one that still writes is
// refused. What is kept is bounded in number and in time, goes when its slot is no longer writable, and does
// not outlive the process.
//
// Thread-safety: every method may be called from any thread. Lifetime: the service and the runtime outlive
// it; no method is called during its destruction. A part may outlive it, but not the service's store.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "http/byte_range.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/transport.hpp"
#include "system/runtime.hpp"

namespace parsyn::transport {

struct PartialUploadsOptions {
  std::size_t uploads_max = limits::kPartialUploadsMax;
  std::chrono::milliseconds lifetime = limits::kPartialUploadLifetime;  ///< Without a new byte.
  std::chrono::milliseconds sweep_interval{15'000};
};

class PartialUploads {
 public:
  /// Where an upload stands: so many bytes are there, or all of them, as an object.
  struct Standing {
    std::uint64_t offset = 0;
    std::optional<ObjectInfo> object;
  };

  explicit PartialUploads(WorkerService &service, system::Runtime &runtime = system::system_runtime(),
                          const PartialUploadsOptions &options = {});
  ~PartialUploads();
  PartialUploads(const PartialUploads &) = delete;
  PartialUploads &operator=(const PartialUploads &) = delete;

  /// A part that takes the whole object; what was there of the slot's upload is dropped. `bytes`: of the
  /// object; without it nobody can go on with the upload. Throws like ObjectStore::create.
  std::shared_ptr<ByteSink> begin(Id worker, const std::string &key, std::optional<std::uint64_t> bytes);
  /// A part that takes `range` of an object of `bytes` bytes; null when the range does not begin where
  /// standing() says. Throws like begin, and Error(unavailable) while the object is being stored.
  std::shared_ptr<ByteSink> go_on(Id worker, const std::string &key, const http::ByteRange &range,
                                  std::uint64_t bytes);
  /// Of an upload of an object of `bytes` bytes. It stays so: a request that still writes is refused from now
  /// on. Stores the object where only that was left to do. Throws like ObjectWriter::commit, and
  /// Error(unavailable) while another request does that.
  Standing standing(const std::string &key, std::uint64_t bytes);
  /// When all of a request's body is in its part: stores the object if its last byte is there. Throws
  /// Error(invalid_argument) when the body was shorter than its range, Error(conflict) when a newer request
  /// has the upload, and like ObjectWriter::commit; the upload is dropped then.
  Standing finish(const std::string &key, ByteSink &part);

  /// Drops what nobody will go on with. A thread of its own does it at each sweep_interval.
  void sweep();
  /// Uploads that are kept or under way.
  std::size_t size() const;

 private:
  struct Upload;
  class Part;

  std::shared_ptr<Upload> find(const std::string &key) const;
  std::shared_ptr<Upload> add(Id worker, const std::string &key, std::optional<std::uint64_t> bytes);
  void forget(const std::string &key, const std::shared_ptr<Upload> &upload);
  ObjectInfo store(const std::string &key, const std::shared_ptr<Upload> &upload,
                   std::unique_ptr<ObjectWriter> writer);
  void run();

  WorkerService &service_;
  system::Runtime &runtime_;
  const PartialUploadsOptions options_;
  mutable std::mutex mutex_;
  const std::unique_ptr<system::Signal> changed_;
  std::map<std::string, std::shared_ptr<Upload>> uploads_;  // guarded by mutex_
  bool stopping_ = false;                                   // guarded by mutex_
  std::unique_ptr<system::Thread> thread_;
};

}  // namespace parsyn::transport
