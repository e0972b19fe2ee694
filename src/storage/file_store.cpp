#include "storage/file_store.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "parsyn/error.hpp"
#include "storage/digest_cache.hpp"
#include "storage/leftovers.hpp"
#include "storage/object_key.hpp"
#include "system/blocks.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace parsyn {
namespace storage {
namespace {

namespace fs = std::filesystem;

using system::FileKind;

/// Of what is copied at a time.
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

/// Thread-safety: every method may be called from any thread.
class Names {
 public:
  void add(const std::string &name) {
    const std::lock_guard lock(mutex_);
    names_.insert(name);
  }
  void forget(const std::string &name) {
    const std::lock_guard lock(mutex_);
    names_.erase(name);
  }
  bool contains(const std::string &name) const {
    const std::lock_guard lock(mutex_);
    return names_.contains(name);
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> names_;  // guarded by mutex_
};

class FileStore final : public ObjectStore {
 public:
  FileStore(const fs::path &folder, system::FileSystem &files);

  std::unique_ptr<ObjectWriter> create(std::string_view key) override;
  std::unique_ptr<ByteSource> open(std::string_view key) const override;
  ObjectInfo stat(std::string_view key) const override;
  std::vector<std::string> list(std::string_view prefix) const override;
  void remove(std::string_view key) override;

  /// Makes the written file visible and durable, and remembers its digest.
  ObjectInfo put(const std::string &key, system::AtomicFile &file, const std::string &sha256);
  /// Removes the folders of `key` that are empty, from the innermost.
  void prune_folders(const std::string &key);

 private:
  fs::path path_of(std::string_view key) const { return folder_ / key; }
  std::mutex &commit_mutex(const std::string &key) const {
    return commit_mutexes_[std::hash<std::string>{}(key) % commit_mutexes_.size()];
  }
  bool is_folder(const fs::path &path) const;
  void make_folders_locked(const fs::path &below_root);
  void prune_folders_locked(const std::string &key);
  bool remove_hollow_locked(const fs::path &below_root);
  void check_not_folder_locked(const std::string &key);
  void flush_if_there(const fs::path &folder) const;
  void flush_folder_of(const std::string &key) const;
  void write_anew(const std::string &key, const FileIdentity &identity) const;

  fs::path folder_;
  system::FileSystem &files_;
  mutable DigestCache digests_;
  /// What is there, but could not be made durable. Only writing it anew helps: after a flush that failed, the
  /// next one may say that all is well.
  mutable Names unflushed_;
  /// Folders of which a flush has failed: the next one says nothing of the entries that were there then.
  mutable Names doubtful_folders_;
  /// Making a folder and the first file in it, against removing a folder that has become empty.
  std::mutex folders_mutex_;
  /// Folders, relative to folder_, whose entry in the folder above is known to be durable.
  std::set<fs::path> flushed_folders_;  // guarded by folders_mutex_
  /// Renaming a file and looking at what then lies there must be one step for each key, or the digest of one
  /// write could be remembered for another. Several mutexes, as a flush to disk takes its time. Taken before
  /// folders_mutex_.
  mutable std::array<std::mutex, 64> commit_mutexes_;
};

class FileObjectWriter final : public ObjectWriter {
 public:
  FileObjectWriter(FileStore &store, std::string key, std::unique_ptr<system::AtomicFile> file)
      : store_(store), key_(std::move(key)), file_(std::move(file)) {}

  ~FileObjectWriter() override {
    if (!file_) return;
    file_.reset();
    try {
      store_.prune_folders(key_);
    } catch (...) {
      // An empty folder is in nobody's way.
    }
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

FileStore::FileStore(const fs::path &folder, system::FileSystem &files) : files_(files) {
  if (folder.empty())
    throw Error(ErrorCode::invalid_argument, "a file store needs a folder; its name is empty");
  if (folder.native().find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument, "the file store's folder has a NUL byte in its name");
  }
  // Absolute, so that a host that changes its working folder later still finds its objects.
  std::error_code error;
  folder_ = fs::absolute(folder, error);
  if (error) throw Error(ErrorCode::io, "cannot find " + folder.string() + ": " + error.message());
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  system::make_folders(folder_, system::kPrivateFolder, files_);
  sweep_leftovers(files_, folder_);
}

bool FileStore::is_folder(const fs::path &path) const {
  const auto status = files_.status(path);
  return status && status->kind == FileKind::folder;
}

void FileStore::flush_if_there(const fs::path &folder) const {
  try {
    system::flush_folder(folder, files_);
  } catch (const Error &error) {
    // Another thread has found it empty and removed it.
    if (error.code() != ErrorCode::not_found) throw;
  }
}

void FileStore::make_folders_locked(const fs::path &below_root) {
  fs::path relative;
  for (const fs::path &segment : below_root) {
    relative /= segment;
    const fs::path path = folder_ / relative;
    if (flushed_folders_.contains(relative) && is_folder(path)) continue;
    // An empty one may be there because it could not be flushed, or never was: flushed again, it may still be
    // lost.
    files_.remove_folder(path);
    if (!system::make_flushed_folder(path, system::kPrivateFolder, files_) && !is_folder(path)) {
      throw Error(ErrorCode::conflict, path.string() + " is an object, so that no other can lie below it");
    }
    flushed_folders_.insert(relative);
  }
}

bool FileStore::remove_hollow_locked(const fs::path &below_root) {
  for (const system::FolderEntry &entry : files_.list(folder_ / below_root)) {
    if (entry.kind != FileKind::folder || !remove_hollow_locked(below_root / entry.name)) return false;
  }
  flushed_folders_.erase(below_root);
  return files_.remove_folder(folder_ / below_root);
}

void FileStore::check_not_folder_locked(const std::string &key) {
  // Folders without any file are what a crash leaves of objects that were being written, or removed.
  if (is_folder(path_of(key)) && !remove_hollow_locked(key)) {
    throw Error(ErrorCode::conflict, "object " + key + " cannot be stored: other objects lie below it");
  }
}

std::unique_ptr<ObjectWriter> FileStore::create(std::string_view key) {
  check_object_key(key);
  std::string name(key);
  const std::lock_guard lock(folders_mutex_);
  check_not_folder_locked(name);
  try {
    make_folders_locked(fs::path(name).parent_path());
    auto file = std::make_unique<system::AtomicFile>(path_of(name), system::kPrivateFile, files_);
    return std::make_unique<FileObjectWriter>(*this, std::move(name), std::move(file));
  } catch (...) {
    prune_folders_locked(std::string(key));
    throw;
  }
}

ObjectInfo FileStore::put(const std::string &key, system::AtomicFile &file, const std::string &sha256) {
  const std::lock_guard lock(commit_mutex(key));
  if (is_folder(path_of(key))) {
    const std::lock_guard folders_lock(folders_mutex_);
    check_not_folder_locked(key);
  }
  const std::uint64_t bytes = file.bytes_written();
  try {
    file.commit();
  } catch (...) {
    if (file.renamed()) {
      unflushed_.add(key);
      doubtful_folders_.add(path_of(key).parent_path());
    }
    throw;
  }
  unflushed_.forget(key);
  // Removed at once by someone else: committed all the same.
  if (const auto identity = identity_of(files_, path_of(key))) digests_.put(key, *identity, sha256);
  return {key, bytes, sha256, etag_of(sha256)};
}

std::unique_ptr<ByteSource> FileStore::open(std::string_view key) const {
  check_object_key(key);
  const fs::path path = path_of(key);
  if (!identity_of(files_, path)) throw Error(ErrorCode::not_found, "there is no object " + std::string(key));
  return std::make_unique<system::FileSource>(path, files_);
}

ObjectInfo FileStore::stat(std::string_view key) const {
  check_object_key(key);
  const std::string name(key);
  const fs::path path = path_of(key);
  for (;;) {
    const auto identity = identity_of(files_, path);
    if (!identity) throw Error(ErrorCode::not_found, "there is no object " + name);
    if (unflushed_.contains(name)) {
      throw Error(ErrorCode::io,
                  "object " + name + " is there, but could not be flushed and may be lost; store it again");
    }
    auto sha256 = digests_.find(name, *identity);
    if (!sha256) {
      // Who is told of an object relies on it, and whoever wrote this one may have been killed before it
      // flushed the folder.
      if (doubtful_folders_.contains(path.parent_path())) {
        write_anew(name, *identity);
        continue;  // its digest is known now
      }
      flush_folder_of(name);
      sha256 = system::sha256_hex(system::FileSource(path, files_));
      // Replaced while it was read: each time round, somebody else has made progress.
      if (identity_of(files_, path) != identity) continue;
      digests_.put(name, *identity, *sha256);
    }
    return {name, identity->bytes, *sha256, etag_of(*sha256)};
  }
}

void FileStore::flush_folder_of(const std::string &key) const {
  const fs::path folder = path_of(key).parent_path();
  try {
    flush_if_there(folder);
  } catch (const Error &error) {
    // Not when nothing was tried, as without a file descriptor to try it with.
    if (error.code() != ErrorCode::unavailable) doubtful_folders_.add(folder);
    throw;
  }
}

void FileStore::write_anew(const std::string &key, const FileIdentity &identity) const {
  const system::FileSource source(path_of(key), files_);
  system::AtomicFile file(path_of(key), system::kPrivateFile, files_);
  system::DigestingSink digested(file);
  system::for_each_block(source, kBlockBytes,
                         [&](std::span<const std::byte> piece, std::uint64_t) { digested.write(piece); });
  const std::lock_guard lock(commit_mutex(key));
  // Replaced meanwhile, or removed: the other one stays.
  if (identity_of(files_, path_of(key)) != identity) return;
  file.commit();
  if (const auto now = identity_of(files_, path_of(key))) digests_.put(key, *now, digested.sha256());
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
    std::vector<system::FolderEntry> entries;
    try {
      entries = files_.list(folder_ / current);
    } catch (const Error &error) {
      // A folder that is not there, or no longer, holds no objects.
      if (error.code() != ErrorCode::not_found) throw;
    }
    for (const system::FolderEntry &entry : entries) {
      const std::string key = current + entry.name;
      // Also skips unfinished files and what is not an object's name at all.
      if (!is_object_key(key)) continue;
      FileKind kind = entry.kind;
      if (kind == FileKind::link) {
        const auto status = files_.status(path_of(key));
        if (status) kind = status->kind;
      }
      if (kind == FileKind::folder) {
        // Of the folder itself only its part that the prefix reaches decides.
        const std::string folder = key + "/";
        if (folder.starts_with(prefix) || prefix.starts_with(folder)) open_folders.push_back(folder);
      } else if (kind == FileKind::regular && key.starts_with(prefix)) {
        keys.push_back(key);
      }
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
    if (identity_of(files_, path)) {
      files_.remove(path);
      flush_if_there(path.parent_path());
    }
    unflushed_.forget(name);
    digests_.forget(name);
  }
  prune_folders(name);
}

void FileStore::prune_folders(const std::string &key) {
  const std::lock_guard lock(folders_mutex_);
  prune_folders_locked(key);
}

void FileStore::prune_folders_locked(const std::string &key) {
  for (fs::path below_root = fs::path(key).parent_path(); !below_root.empty();
       below_root = below_root.parent_path()) {
    try {
      // A folder with something in it stays: removing it fails, and that is the test.
      if (!files_.remove_folder(folder_ / below_root)) return;
    } catch (const Error &) {
      return;
    }
    flushed_folders_.erase(below_root);
  }
}

}  // namespace

std::shared_ptr<ObjectStore> make_file_store(const fs::path &folder, system::FileSystem &files) {
  return std::make_shared<FileStore>(folder, files);
}

}  // namespace storage

std::shared_ptr<ObjectStore> make_file_store(const std::filesystem::path &folder) {
  return storage::make_file_store(folder, system::posix_file_system());
}

}  // namespace parsyn
