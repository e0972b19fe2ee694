#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/object_store.hpp"
#include "storage/digest_cache.hpp"
#include "storage/leftovers.hpp"
#include "storage/object_key.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace parsyn {
namespace storage {
namespace {

namespace fs = std::filesystem;

/// The folder of a removed object, unless another thread has found it empty and removed it too.
void flush_if_there(const fs::path &folder) {
  try {
    system::flush_folder(folder);
  } catch (const Error &error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
}

class FileStore final : public ObjectStore {
 public:
  explicit FileStore(const fs::path &folder);

  std::unique_ptr<ObjectWriter> create(std::string_view key) override;
  std::unique_ptr<ByteSource> open(std::string_view key) const override;
  ObjectInfo stat(std::string_view key) const override;
  std::vector<std::string> list(std::string_view prefix) const override;
  void remove(std::string_view key) override;

  /// Makes the written file visible, and remembers its digest.
  ObjectInfo put(const std::string &key, system::AtomicFile &file, const std::string &sha256);
  /// Removes the folders of `key` that are empty, from the innermost.
  void prune_folders(const std::string &key);

 private:
  fs::path path_of(std::string_view key) const { return folder_ / key; }
  std::mutex &commit_mutex(const std::string &key) {
    return commit_mutexes_[std::hash<std::string>{}(key) % commit_mutexes_.size()];
  }
  void make_folders_locked(const fs::path &below_root);
  void check_not_folder(const std::string &key) const;

  fs::path folder_;
  mutable DigestCache digests_;
  /// Making a folder and the first file in it, against removing a folder that has become empty.
  std::mutex folders_mutex_;
  /// Renaming a file and looking at what then lies there must be one step for each key, or the digest of one
  /// write could be remembered for another. Several mutexes, as a flush to disk takes its time.
  std::array<std::mutex, 64> commit_mutexes_;
};

class FileObjectWriter final : public ObjectWriter {
 public:
  FileObjectWriter(FileStore &store, std::string key, std::unique_ptr<system::AtomicFile> file)
      : store_(store), key_(std::move(key)), file_(std::move(file)) {}

  ~FileObjectWriter() override {
    if (!file_) return;
    file_.reset();
    store_.prune_folders(key_);
  }

  void write(std::span<const std::byte> bytes) override {
    check_open();
    file_->write(bytes);
    digest_.update(bytes);
  }

  ObjectInfo commit() override {
    check_open();
    // After a failure too, the file is not written any further; what is left of it goes with the writer.
    committed_ = true;
    ObjectInfo info = store_.put(key_, *file_, digest_.hex());
    file_.reset();
    return info;
  }

 private:
  void check_open() const {
    if (committed_)
      throw Error(ErrorCode::conflict,
                  "object " + key_ + " is already committed; create it anew to replace it");
  }

  FileStore &store_;
  std::string key_;
  std::unique_ptr<system::AtomicFile> file_;  // null once visible
  system::Sha256 digest_;
  bool committed_ = false;
};

FileStore::FileStore(const fs::path &folder) {
  if (folder.empty())
    throw Error(ErrorCode::invalid_argument, "a file store needs a folder; its name is empty");
  if (folder.native().find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument, "the file store's folder has a NUL byte in its name");
  }
  // Absolute, so that a host that changes its working folder later still finds its objects.
  std::error_code error;
  folder_ = fs::absolute(folder, error);
  if (error) throw Error(ErrorCode::io, "cannot find " + folder.string() + ": " + error.message());
  system::make_folders(folder_);
  if (!fs::is_directory(folder_, error)) {
    throw Error(ErrorCode::invalid_argument, folder_.string() + " is not a folder; a file store needs one");
  }
  sweep_leftovers(folder_);
}

void FileStore::make_folders_locked(const fs::path &below_root) {
  fs::path current = folder_;
  for (const fs::path &segment : below_root) {
    const fs::path parent = current;
    current /= segment;
    std::error_code error;
    if (fs::create_directory(current, error)) {
      system::flush_folder(parent);
    } else if (fs::exists(current) && !fs::is_directory(current)) {
      throw Error(ErrorCode::conflict, current.string() + " is an object, so that no other can lie below it");
    } else if (error) {
      throw Error(ErrorCode::io, "cannot make the folder " + current.string() + ": " + error.message());
    }
  }
}

void FileStore::check_not_folder(const std::string &key) const {
  std::error_code ignored;
  if (fs::is_directory(path_of(key), ignored)) {
    throw Error(ErrorCode::conflict, "object " + key + " cannot be stored: other objects lie below it");
  }
}

std::unique_ptr<ObjectWriter> FileStore::create(std::string_view key) {
  check_object_key(key);
  std::string name(key);
  check_not_folder(name);
  const fs::path path = path_of(key);
  const std::lock_guard lock(folders_mutex_);
  make_folders_locked(fs::path(name).parent_path());
  auto file = std::make_unique<system::AtomicFile>(path);
  return std::make_unique<FileObjectWriter>(*this, std::move(name), std::move(file));
}

ObjectInfo FileStore::put(const std::string &key, system::AtomicFile &file, const std::string &sha256) {
  const fs::path path = path_of(key);
  const std::lock_guard lock(commit_mutex(key));
  check_not_folder(key);
  const std::uint64_t bytes = file.bytes_written();
  file.commit();
  // Removed at once by someone else: committed all the same.
  if (const auto identity = identity_of(path)) digests_.put(key, *identity, sha256);
  return {key, bytes, sha256, etag_of(sha256)};
}

std::unique_ptr<ByteSource> FileStore::open(std::string_view key) const {
  check_object_key(key);
  if (!identity_of(path_of(key))) throw Error(ErrorCode::not_found, "there is no object " + std::string(key));
  return std::make_unique<system::FileSource>(path_of(key));
}

ObjectInfo FileStore::stat(std::string_view key) const {
  check_object_key(key);
  const std::string name(key);
  const fs::path path = path_of(key);
  for (;;) {
    const auto identity = identity_of(path);
    if (!identity) throw Error(ErrorCode::not_found, "there is no object " + name);
    auto sha256 = digests_.find(name, *identity);
    if (!sha256) {
      sha256 = system::sha256_hex(system::FileSource(path));
      // Replaced while it was read: each time round, somebody else has made progress.
      if (identity_of(path) != identity) continue;
      digests_.put(name, *identity, *sha256);
    }
    return {name, identity->bytes, *sha256, etag_of(*sha256)};
  }
}

std::vector<std::string> FileStore::list(std::string_view prefix) const {
  check_object_prefix(prefix);
  std::vector<std::string> keys;
  // Only the folder that the prefix names in full is walked.
  const std::size_t slash = prefix.rfind('/');
  std::vector<std::string> open_folders{
      std::string(slash == std::string_view::npos ? "" : prefix.substr(0, slash + 1))};
  while (!open_folders.empty()) {
    const std::string current = open_folders.back();
    open_folders.pop_back();
    const fs::path path = folder_ / current;
    std::error_code error;
    fs::directory_iterator at(path, error);
    for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
      const std::string key = current + at->path().filename().string();
      // Also skips unfinished files and what is not an object's name at all.
      if (!is_object_key(key)) continue;
      std::error_code gone;
      if (at->is_directory(gone)) {
        // Of the folder itself only its part that the prefix reaches decides.
        const std::string folder = key + "/";
        if (folder.starts_with(prefix) || prefix.starts_with(folder)) open_folders.push_back(folder);
      } else if (at->is_regular_file(gone) && key.starts_with(prefix)) {
        keys.push_back(key);
      }
    }
    // A folder that is not there, or no longer, holds no objects.
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
      throw Error(ErrorCode::io, "cannot list " + path.string() + ": " + error.message());
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void FileStore::remove(std::string_view key) {
  check_object_key(key);
  const std::string name(key);
  const fs::path path = path_of(key);
  {
    const std::lock_guard lock(commit_mutex(name));
    if (identity_of(path)) {
      std::error_code error;
      fs::remove(path, error);
      if (error) throw Error(ErrorCode::io, "cannot remove object " + name + ": " + error.message());
      flush_if_there(path.parent_path());
    }
    digests_.forget(name);
  }
  prune_folders(name);
}

void FileStore::prune_folders(const std::string &key) {
  const std::lock_guard lock(folders_mutex_);
  for (fs::path below_root = fs::path(key).parent_path(); !below_root.empty();
       below_root = below_root.parent_path()) {
    const fs::path path = folder_ / below_root;
    std::error_code error;
    // A folder with something in it stays: removing it fails, and that is the test.
    if (!fs::is_directory(path, error) || !fs::remove(path, error)) return;
  }
}

}  // namespace
}  // namespace storage

std::shared_ptr<ObjectStore> make_file_store(const std::filesystem::path &folder) {
  return std::make_shared<storage::FileStore>(folder);
}

}  // namespace parsyn
