#include "transport/partial_uploads.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "parsyn/error.hpp"

namespace parsyn::transport {

struct PartialUploads::Upload {
  Upload(Id of, std::optional<std::uint64_t> all, std::unique_ptr<ObjectWriter> to, Time now)
      : worker(of), total(all), used(now), writer(std::move(to)) {}

  /// Nobody writes to it any more, and what was written is removed.
  void drop() {
    const std::lock_guard lock(mutex);
    drop_locked();
  }
  void drop_locked() {
    ++turn;
    writer.reset();
  }
  void check_not_storing_locked() const {
    if (storing) throw Error(ErrorCode::unavailable, "the object is being stored: come again");
  }

  const Id worker;
  const std::optional<std::uint64_t> total;
  std::atomic<Time> used;

  std::mutex mutex;
  std::unique_ptr<ObjectWriter> writer;  // guarded by mutex; null when dropped or being stored
  bool storing = false;                  // guarded by mutex
  std::uint64_t bytes = 0;               // guarded by mutex
  std::uint64_t turn = 0;                // guarded by mutex; of the request that may write
};

/// One request's share of an upload.
class PartialUploads::Part final : public ByteSink {
 public:
  Part(std::shared_ptr<Upload> upload, std::uint64_t turn, std::optional<std::uint64_t> end,
       system::Runtime &runtime)
      : upload_(std::move(upload)), turn_(turn), end_(end), runtime_(runtime) {}

  void write(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(upload_->mutex);
    check_turn_locked();
    if (end_ && bytes.size() > *end_ - upload_->bytes)
      throw Error(ErrorCode::too_large, "the body is longer than its range");
    try {
      upload_->writer->write(bytes);
    } catch (...) {
      upload_->drop_locked();  // how much of the piece was written is not known
      throw;
    }
    upload_->bytes += bytes.size();
    upload_->used = runtime_.now();
  }

  const std::shared_ptr<Upload> &upload() const { return upload_; }
  std::optional<std::uint64_t> end() const { return end_; }
  void check_turn_locked() const {
    if (turn_ != upload_->turn) {
      throw Error(ErrorCode::conflict,
                  "a newer request has this upload, or it was dropped: ask for its offset, and go on there");
    }
  }

 private:
  const std::shared_ptr<Upload> upload_;
  const std::uint64_t turn_;
  const std::optional<std::uint64_t> end_;
  system::Runtime &runtime_;
};

PartialUploads::PartialUploads(WorkerService &service, system::Runtime &runtime,
                               const PartialUploadsOptions &options)
    : service_(service),
      runtime_(runtime),
      options_(options),
      changed_(runtime.make_signal()),
      thread_(runtime.start([this] { run(); })) {}

PartialUploads::~PartialUploads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_->notify_all();
  thread_.reset();
  for (const auto &[key, upload] : uploads_) upload->drop();
}

std::shared_ptr<PartialUploads::Upload> PartialUploads::find(const std::string &key) const {
  const std::lock_guard lock(mutex_);
  const auto found = uploads_.find(key);
  return found == uploads_.end() ? nullptr : found->second;
}

std::shared_ptr<PartialUploads::Upload> PartialUploads::add(Id worker, const std::string &key,
                                                            std::optional<std::uint64_t> bytes) {
  // First, as both may not fit on the disk.
  if (const auto old = find(key)) {
    forget(key, old);
    old->drop();
  }
  auto added = std::make_shared<Upload>(worker, bytes, service_.objects().create(key), runtime_.now());
  std::vector<std::shared_ptr<Upload>> ended;  // their files are removed with the lock given back
  {
    const std::lock_guard lock(mutex_);
    ended.push_back(std::exchange(uploads_[key], added));
    while (uploads_.size() > options_.uploads_max) {
      // One that is under way goes on all the same; only, when it breaks, it begins anew.
      const auto longest_idle =
          std::ranges::min_element(uploads_, {}, [](const auto &entry) { return entry.second->used.load(); });
      ended.push_back(std::move(longest_idle->second));
      uploads_.erase(longest_idle);
    }
  }
  changed_->notify_all();
  if (ended.front()) ended.front()->drop();
  return added;
}

void PartialUploads::forget(const std::string &key, const std::shared_ptr<Upload> &upload) {
  const std::lock_guard lock(mutex_);
  const auto found = uploads_.find(key);
  if (found != uploads_.end() && found->second == upload) uploads_.erase(found);
}

std::shared_ptr<ByteSink> PartialUploads::begin(Id worker, const std::string &key,
                                                std::optional<std::uint64_t> bytes) {
  return std::make_shared<Part>(add(worker, key, bytes), 0, bytes, runtime_);
}

std::shared_ptr<ByteSink> PartialUploads::go_on(Id worker, const std::string &key,
                                                const http::ByteRange &range, std::uint64_t bytes) {
  const std::uint64_t end = range.last + 1;
  if (const auto upload = find(key); upload && upload->total == bytes) {
    const std::lock_guard lock(upload->mutex);
    upload->check_not_storing_locked();
    if (upload->writer) {
      if (upload->bytes != range.first) return nullptr;
      return std::make_shared<Part>(upload, ++upload->turn, end, runtime_);
    }
  }
  if (range.first != 0) return nullptr;
  return std::make_shared<Part>(add(worker, key, bytes), 0, end, runtime_);
}

PartialUploads::Standing PartialUploads::standing(const std::string &key, std::uint64_t bytes) {
  if (const auto upload = find(key); upload && upload->total == bytes) {
    std::unique_lock lock(upload->mutex);
    upload->check_not_storing_locked();
    if (upload->writer) {
      ++upload->turn;
      if (upload->bytes < bytes) return {upload->bytes, std::nullopt};
      // Its last byte came, and the connection broke before anybody could be told.
      upload->storing = true;
      auto writer = std::move(upload->writer);
      lock.unlock();
      return {bytes, store(key, upload, std::move(writer))};
    }
  }
  try {
    // Stored, and the answer was lost. Whether these are the sender's bytes it sees by their digest.
    ObjectInfo object = service_.objects().stat(key);
    if (object.bytes == bytes) return {bytes, std::move(object)};
  } catch (const Error &error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
  return {};
}

PartialUploads::Standing PartialUploads::finish(const std::string &key, ByteSink &sink) {
  const Part &part = static_cast<Part &>(sink);
  const std::shared_ptr<Upload> &upload = part.upload();
  std::unique_lock lock(upload->mutex);
  part.check_turn_locked();
  const std::uint64_t bytes = upload->bytes;
  if (part.end() && bytes < *part.end()) {
    throw Error(ErrorCode::invalid_argument, "the body ends at byte " + std::to_string(bytes) +
                                                 " of the object; its Content-Range ends at " +
                                                 std::to_string(*part.end()));
  }
  if (upload->total && bytes < *upload->total) return {bytes, std::nullopt};
  upload->storing = true;
  auto writer = std::move(upload->writer);
  lock.unlock();
  return {bytes, store(key, upload, std::move(writer))};
}

ObjectInfo PartialUploads::store(const std::string &key, const std::shared_ptr<Upload> &upload,
                                 std::unique_ptr<ObjectWriter> writer) {
  try {
    ObjectInfo object = writer->commit();
    forget(key, upload);
    return object;
  } catch (...) {
    forget(key, upload);
    throw;
  }
}

void PartialUploads::sweep() {
  std::vector<std::pair<std::string, std::shared_ptr<Upload>>> all;
  {
    const std::lock_guard lock(mutex_);
    all.assign(uploads_.begin(), uploads_.end());
  }
  for (const auto &[key, upload] : all) {
    const bool over = service_.may_write(upload->worker, key) == 0;
    if (!over && runtime_.now() - upload->used.load() <= options_.lifetime) continue;
    forget(key, upload);
    if (over) upload->drop();
  }
}

std::size_t PartialUploads::size() const {
  const std::lock_guard lock(mutex_);
  return uploads_.size();
}

void PartialUploads::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_->wait(lock, [this] { return stopping_ || !uploads_.empty(); });
    const Time next = runtime_.now() + options_.sweep_interval;
    if (runtime_.wait_until(*changed_, lock, next, [this] { return stopping_; })) return;
    lock.unlock();
    sweep();
    lock.lock();
  }
}

}  // namespace parsyn::transport
