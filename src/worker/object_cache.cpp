#include "worker/object_cache.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "text/encoding.hpp"

namespace parsyn::worker {
namespace {

struct CachedFile {
  std::filesystem::path path;
  std::filesystem::file_time_type last_use;
  std::uint64_t bytes = 0;
};

/// Files that go away meanwhile are left out.
std::vector<CachedFile> files_in(const std::filesystem::path &folder) {
  std::vector<CachedFile> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    CachedFile file{entry->path(), entry->last_write_time(gone), 0};
    if (!gone && entry->is_regular_file(gone)) file.bytes = entry->file_size(gone);
    if (!gone) files.push_back(std::move(file));
  }
  return files;
}

/// Of "SHA256", and of a download that has not ended, "SHA256.part".
std::string object_of(const CachedFile &file) { return file.path.stem().string(); }

}  // namespace

ObjectCache::ObjectCache(std::filesystem::path folder, std::uint64_t bytes_max, Download download)
    : folder_(std::move(folder)), bytes_max_(bytes_max), download_(std::move(download)) {
  system::make_folders(folder_);
  // One that was there may be of a release that left it open. Where modes mean nothing, none is set.
  std::error_code unchangeable;
  std::filesystem::permissions(folder_, std::filesystem::perms(system::kPrivateFolder), unchangeable);
  make_room(0);
}

void ObjectCache::keep(std::set<std::string> sha256) { kept_ = std::move(sha256); }

std::filesystem::path ObjectCache::fetch(const ObjectRef &object) {
  constexpr std::size_t kDigestBytes = 32;
  if (!text::is_hex(object.sha256, kDigestBytes)) {
    throw Error(ErrorCode::protocol,
                "the task names an object by what is no SHA-256: 64 lower-case hexadecimal digits");
  }
  const std::filesystem::path file = folder_ / object.sha256;
  std::error_code ignored;
  const bool there = std::filesystem::file_size(file, ignored) == object.bytes && !ignored;
  // The name is the digest, but a file may have rotted or been cut since: it is read once more before it is
  // used.
  if (!there || system::sha256_hex(system::FileSource(file)) != object.sha256) {
    kept_.insert(object.sha256);
    std::filesystem::remove(file, ignored);
    // Somebody who tidies up may have removed it under a worker that runs for weeks.
    system::make_folders(folder_);
    make_room(object.bytes);
    download_(object, file);
  }
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now(), ignored);
  return file;
}

void ObjectCache::remove(const std::filesystem::path &file) {
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
}

void ObjectCache::make_room(std::uint64_t bytes) {
  std::vector<CachedFile> files = files_in(folder_);
  std::uint64_t there = bytes;
  for (const CachedFile &file : files) there += file.bytes;
  std::ranges::sort(files, {}, &CachedFile::last_use);
  for (const CachedFile &file : files) {
    if (there <= bytes_max_) return;
    if (kept_.contains(object_of(file))) continue;
    std::error_code error;
    if (std::filesystem::remove(file.path, error)) there -= file.bytes;
  }
}

}  // namespace parsyn::worker
