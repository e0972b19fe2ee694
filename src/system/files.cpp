#include "system/files.hpp"

#include <optional>
#include <string>
#include <utility>

#include "parsyn/error.hpp"

namespace parsyn::system {
namespace {

/// The folder of a bare file name.
std::filesystem::path named(const std::filesystem::path &folder) { return folder.empty() ? "." : folder; }

}  // namespace

FileSource::FileSource(const std::filesystem::path &path, FileSystem &files)
    : path_(path), file_(files.open(path)) {}

void FileSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset) {
    throw Error(ErrorCode::corrupt_data, path_.string() + " has " + std::to_string(size()) + " bytes; " +
                                             std::to_string(out.size()) + " bytes at " +
                                             std::to_string(offset) + " were asked for");
  }
  while (!out.empty()) {
    const std::size_t got = file_->read_at(offset, out);
    if (got == 0) throw Error(ErrorCode::corrupt_data, path_.string() + " became shorter while it was read");
    offset += got;
    out = out.subspan(got);
  }
}

AtomicFile::AtomicFile(std::filesystem::path path, unsigned mode, FileSystem &files)
    : files_(files), path_(std::move(path)), temporary_(path_) {
  temporary_ += std::string(kTemporaryMark) + files_.session() + "-" + files_.unique();
  file_ = files_.create(temporary_, mode);
}

AtomicFile::~AtomicFile() {
  file_.reset();
  if (temporary_.empty()) return;
  try {
    files_.remove(temporary_);
  } catch (...) {
    // It is in nobody's way, and whoever looks for leftovers next removes it.
  }
}

WritableFile &AtomicFile::file() const {
  if (!file_) throw Error(ErrorCode::conflict, path_.string() + " has been committed already; write it anew");
  return *file_;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  file().append(bytes);
  written_ += bytes.size();
}

void AtomicFile::finish() {
  file();
  const auto file = std::exchange(file_, nullptr);
  file->flush();
  file->close();
}

void AtomicFile::commit() {
  finish();
  files_.rename(temporary_, path_);
  temporary_.clear();
  system::flush_folder(path_.parent_path(), files_);
}

bool AtomicFile::commit_new() {
  finish();
  if (!publish_file(temporary_, path_, files_)) return false;
  temporary_.clear();
  return true;
}

bool publish_file(const std::filesystem::path &from, const std::filesystem::path &to, FileSystem &files) {
  if (!files.rename_new(from, to)) return false;
  try {
    system::flush_folder(to.parent_path(), files);
  } catch (...) {
    // Left there, it would be taken for a durable one the next time: a flush is never tried again.
    try {
      files.remove(to);
    } catch (const Error &) {
    }
    throw;
  }
  return true;
}

std::string read_text_file(const std::filesystem::path &path, std::uint64_t bytes_max) {
  const FileSource source(path);
  if (source.size() > bytes_max) {
    throw Error(ErrorCode::too_large, path.string() + " has " + std::to_string(source.size()) +
                                          " bytes; at most " + std::to_string(bytes_max) + " are read");
  }
  std::string text(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_text_file(const std::filesystem::path &path, std::string_view text, unsigned mode) {
  AtomicFile file(path, mode);
  file.write(std::as_bytes(std::span(text.data(), text.size())));
  file.commit();
}

void remove_unfinished(const std::filesystem::path &file, FileSystem &files) {
  const std::string mark = file.filename().string() + std::string(kTemporaryMark);
  try {
    for (const FolderEntry &entry : files.list(named(file.parent_path()))) {
      if (entry.name.starts_with(mark)) files.remove(file.parent_path() / entry.name);
    }
  } catch (const Error &) {
  }
}

void make_folders(const std::filesystem::path &folder, unsigned mode, FileSystem &files) {
  if (folder.empty()) return;
  // "a/b/" is "a/b", and lies in "a".
  if (!folder.has_filename() && folder.has_relative_path()) {
    return make_folders(folder.parent_path(), mode, files);
  }
  const auto is_there = [&] {
    const std::optional<FileStatus> status = files.status(folder);
    if (status && status->kind != FileKind::folder) {
      throw Error(ErrorCode::io,
                  "cannot make the folder " + folder.string() + ": it is there, and no folder");
    }
    return status.has_value();
  };
  if (is_there()) {
    // Whoever made it may have been killed before it was flushed. Where a service's folders are made for it,
    // the one above may not be its own to read.
    if (files.may_open_folder(named(folder.parent_path()))) flush_folder(folder.parent_path(), files);
    return;
  }
  make_folders(folder.parent_path(), mode, files);
  // Somebody else may have made it meanwhile; or something else.
  if (!make_flushed_folder(folder, mode, files)) is_there();
}

bool make_flushed_folder(const std::filesystem::path &folder, unsigned mode, FileSystem &files) {
  const bool made = files.make_folder(folder, mode);
  try {
    flush_folder(folder.parent_path(), files);
  } catch (...) {
    // Left there, it would be taken for a durable one the next time. One with something in it stays.
    try {
      files.remove_folder(folder);
    } catch (const Error &) {
    }
    throw;
  }
  return made;
}

void flush_folder(const std::filesystem::path &folder, FileSystem &files) {
  files.flush_folder(named(folder));
}

}  // namespace parsyn::system
