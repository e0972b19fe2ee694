#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/object_store.hpp"
#include "storage/object_key.hpp"
#include "system/sha256.hpp"

namespace parsyn {
namespace storage {
namespace {

struct MemoryObject {
  ObjectInfo info;
  std::vector<std::byte> bytes;
};

/// Shares the object, so that it stays whole while it is read, whatever happens to its key.
class MemoryObjectSource final : public ByteSource {
 public:
  explicit MemoryObjectSource(std::shared_ptr<const MemoryObject> object) : object_(std::move(object)) {}

  std::uint64_t size() const override { return object_->bytes.size(); }

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size() || out.size() > size() - offset) {
      throw Error(ErrorCode::corrupt_data, "object " + object_->info.key + " has " + std::to_string(size()) +
                                               " bytes; " + std::to_string(out.size()) + " bytes at " +
                                               std::to_string(offset) + " were asked for");
    }
    if (!out.empty()) std::memcpy(out.data(), object_->bytes.data() + offset, out.size());
  }

 private:
  std::shared_ptr<const MemoryObject> object_;
};

class MemoryStore final : public ObjectStore {
 public:
  std::unique_ptr<ObjectWriter> create(std::string_view key) override;

  std::unique_ptr<ByteSource> open(std::string_view key) const override {
    return std::make_unique<MemoryObjectSource>(find(key));
  }

  ObjectInfo stat(std::string_view key) const override { return find(key)->info; }

  std::vector<std::string> list(std::string_view prefix) const override {
    check_object_prefix(prefix);
    std::vector<std::string> keys;
    const std::lock_guard lock(mutex_);
    for (auto at = objects_.lower_bound(prefix); at != objects_.end() && at->first.starts_with(prefix);
         ++at) {
      keys.push_back(at->first);
    }
    return keys;
  }

  void remove(std::string_view key) override {
    check_object_key(key);
    const std::lock_guard lock(mutex_);
    if (const auto at = objects_.find(key); at != objects_.end()) objects_.erase(at);
  }

  void put(std::shared_ptr<const MemoryObject> object) {
    const std::lock_guard lock(mutex_);
    const std::string key = object->info.key;
    check_place_locked(key);
    objects_[key] = std::move(object);
  }

 private:
  std::shared_ptr<const MemoryObject> find(std::string_view key) const {
    check_object_key(key);
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(key);
    if (at == objects_.end()) throw Error(ErrorCode::not_found, "there is no object " + std::string(key));
    return at->second;
  }

  /// As files and folders have it: a key is not also the folder of others.
  void check_place_locked(const std::string &key) const {
    const std::string folder = key + "/";
    const auto below = objects_.lower_bound(folder);
    if (below != objects_.end() && below->first.starts_with(folder)) {
      throw Error(ErrorCode::conflict,
                  "object " + key + " cannot be stored: " + below->first + " lies below it");
    }
    for (std::size_t slash = key.find('/'); slash != std::string::npos; slash = key.find('/', slash + 1)) {
      if (objects_.contains(key.substr(0, slash))) {
        throw Error(ErrorCode::conflict, "object " + key + " cannot be stored: " + key.substr(0, slash) +
                                             " is an object, not a folder");
      }
    }
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const MemoryObject>, std::less<>> objects_;  // guarded by mutex_
};

class MemoryObjectWriter final : public ObjectWriter {
 public:
  MemoryObjectWriter(MemoryStore &store, std::string_view key)
      : store_(store), object_(std::make_shared<MemoryObject>()) {
    object_->info.key = key;
  }

  void write(std::span<const std::byte> bytes) override {
    check_open();
    object_->bytes.insert(object_->bytes.end(), bytes.begin(), bytes.end());
    digest_.update(bytes);
  }

  ObjectInfo commit() override {
    check_open();
    const auto object = std::exchange(object_, nullptr);
    object->info.bytes = object->bytes.size();
    object->info.sha256 = digest_.hex();
    object->info.etag = etag_of(object->info.sha256);
    store_.put(object);
    return object->info;
  }

 private:
  void check_open() const {
    if (!object_)
      throw Error(ErrorCode::conflict, "the object is already committed; create it anew to replace it");
  }

  MemoryStore &store_;
  std::shared_ptr<MemoryObject> object_;  // null once committed
  system::Sha256 digest_;
};

std::unique_ptr<ObjectWriter> MemoryStore::create(std::string_view key) {
  check_object_key(key);
  return std::make_unique<MemoryObjectWriter>(*this, key);
}

}  // namespace
}  // namespace storage

std::shared_ptr<ObjectStore> make_memory_store() { return std::make_shared<storage::MemoryStore>(); }

}  // namespace parsyn
