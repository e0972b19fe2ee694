// Where weights and partitions are kept: named, immutable byte strings.
//
// A key is a relative path of segments [A-Za-z0-9._=-] that are neither "." nor ".."
// ("jobs/1/rounds/3/global.safetensors"). An object appears as a whole or not at all: what reads a key sees
// all bytes of one write. parsyn writes every key once; a second write of the same key replaces it as a
// whole. A key is not also the folder of others: with "a" stored, "a/b" is a conflict. Keys and segments are
// bounded by limits.hpp.
//
// Errors of a backend: unavailable (no space, over quota, too many open files, a read-only disk: the same
// call may succeed later) and io (anything else; a flush that failed is always io, and is not tried again:
// write the object anew).
//
// Thread-safety: every method may be called from any thread, several at once.
// Lifetime: readers and writers may outlive other objects' removal, but not the store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/bytes.hpp"

namespace parsyn {

struct ObjectInfo {
  std::string key = {};
  std::uint64_t bytes = 0;
  std::string sha256 = {};  ///< Lower-case hex of the whole object, as `sha256sum` prints it.
  std::string etag = {};    ///< Opaque version tag, quoted, as an HTTP ETag.
};

/// Collects an object; nothing is visible before commit(). Destroying it without commit leaves nothing
/// behind.
class ObjectWriter : public ByteSink {
 public:
  /// Makes the object visible and durable: when it returns, the object survives a loss of power. Call once.
  /// Throws Error: unavailable, io, conflict (a second call; a key that is also a folder). After an error the
  /// key has the old object, or none; or the new one, but then stat() does not vouch for it.
  virtual ObjectInfo commit() = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Throws Error: invalid_argument (the key), conflict, unavailable, io. Writing to it throws unavailable,
  /// io.
  virtual std::unique_ptr<ObjectWriter> create(std::string_view key) = 0;
  /// Throws Error: not_found, invalid_argument, unavailable, io.
  virtual std::unique_ptr<ByteSource> open(std::string_view key) const = 0;
  /// Of a durable object. Throws like open; io also for an object that is there but could not be flushed.
  virtual ObjectInfo stat(std::string_view key) const = 0;
  /// All keys that start with `prefix`, sorted bytewise. Throws Error: invalid_argument (no key can start
  /// so), unavailable, io.
  virtual std::vector<std::string> list(std::string_view prefix) const = 0;
  /// Removing what is not there is fine. Throws Error: invalid_argument, unavailable, io. After an error, and
  /// until it returns, the object may come back with a crash, as a whole.
  virtual void remove(std::string_view key) = 0;
};

/// Throws Error(invalid_argument) that says what is wrong with the key.
void check_object_key(std::string_view key);

std::shared_ptr<ObjectStore> make_memory_store();

/// Objects are files below `folder`, which is made when it is not there. An object is written beside its
/// place, flushed, renamed, and its folder flushed; a new folder is flushed into the one above. Opening a
/// store removes the unfinished files that other processes have left, so a folder belongs to one coordinator
/// at a time. New folders have mode 0700 and files 0600: they are weights and training data. A digest that
/// stat() does not know yet is computed by reading.
std::shared_ptr<ObjectStore> make_file_store(const std::filesystem::path &folder);

/// "memory:" or "file:DIR", where DIR is taken as it is: no escapes, no "..". Throws Error(invalid_argument)
/// for another scheme, by name.
std::shared_ptr<ObjectStore> open_object_store(const std::string &location);

}  // namespace parsyn
