#include "support/simulated_disk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "parsyn/error.hpp"

namespace parsyn::test {
namespace fs = std::filesystem;
using system::FileKind;
using system::throw_file_error;
using system::throw_flush_error;

namespace {

constexpr std::uint64_t kSectorBytes = 512;

/// A write, or a truncation to `offset` bytes.
struct Change {
  std::uint64_t offset;
  std::string bytes;
  bool truncates;
};

void put_bytes(std::string &content, std::uint64_t offset, std::string_view bytes) {
  if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size(), '\0');
  content.replace(offset, bytes.size(), bytes);
}

void apply_change(std::string &content, const Change &change) {
  if (change.truncates) {
    content.resize(change.offset, '\0');
  } else {
    put_bytes(content, change.offset, change.bytes);
  }
}

void apply_in_part(std::string &content, const Change &change, core::Random &random) {
  if (change.truncates) {
    if (random.below(2) == 0) apply_change(content, change);
    return;
  }
  const std::uint64_t end = change.offset + change.bytes.size();
  for (std::uint64_t at = change.offset; at < end;) {
    const std::uint64_t next = std::min(end, (at / kSectorBytes + 1) * kSectorBytes);
    const std::uint64_t draw = random.below(8);
    if (draw < 4) {
      put_bytes(content, at, std::string_view(change.bytes).substr(at - change.offset, next - at));
    } else if (draw == 4 && content.size() < next) {
      content.resize(next, '\0');
    }
    at = next;
  }
}

}  // namespace

struct SimulatedDisk::File::Node {
  /// An entry that is made (from empty), renamed, or removed (to empty).
  struct EntryChange {
    std::string from;
    std::string to;
    std::shared_ptr<Node> node;
  };
  using Entries = std::map<std::string, std::shared_ptr<Node>>;

  bool is_folder = false;
  std::uint64_t number = 0;
  std::uint64_t modified = 0;
  // Of a file.
  std::string seen;
  std::string durable;
  std::vector<Change> pending;
  // Of a folder.
  Entries seen_entries;
  Entries durable_entries;
  std::vector<EntryChange> pending_entries;

  static void apply_entry(Entries &entries, const EntryChange &change) {
    if (!change.from.empty()) entries.erase(change.from);
    if (!change.to.empty()) entries[change.to] = change.node;
  }

  void change(Change one) {
    apply_change(seen, one);
    pending.push_back(std::move(one));
  }

  void change_entry(EntryChange one) {
    apply_entry(seen_entries, one);
    pending_entries.push_back(std::move(one));
  }

  void flush_bytes() {
    for (const Change &one : pending) apply_change(durable, one);
    pending.clear();
  }

  void flush_entries() {
    for (const EntryChange &one : pending_entries) apply_entry(durable_entries, one);
    pending_entries.clear();
  }

  /// What is left of it, and of all below it, after a power loss.
  void settle(core::Random &random) {
    if (is_folder) {
      if (!pending_entries.empty()) pending_entries.resize(random.below(pending_entries.size() + 1));
      flush_entries();
      seen_entries = durable_entries;
      for (const auto &[name, node] : durable_entries) node->settle(random);
      return;
    }
    if (!pending.empty()) {
      // All and nothing are likelier than chance alone would have it.
      const std::uint64_t draw = random.below(4);
      if (draw == 0) flush_bytes();
      if (draw > 1) {
        for (const Change &one : pending) apply_in_part(durable, one, random);
      }
      pending.clear();
    }
    seen = durable;
  }
};

namespace {

class SimulatedReader final : public system::ReadableFile {
 public:
  explicit SimulatedReader(std::shared_ptr<SimulatedDisk::File> file)
      : file_(std::move(file)), size_(file_->size()) {}
  std::uint64_t size() const override { return size_; }
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    return file_->read_at(offset, out);
  }

 private:
  std::shared_ptr<SimulatedDisk::File> file_;
  std::uint64_t size_;
};

class SimulatedWriter final : public system::WritableFile {
 public:
  SimulatedWriter(std::shared_ptr<SimulatedDisk::File> file, std::function<void()> close)
      : file_(std::move(file)), close_(std::move(close)) {}
  void append(std::span<const std::byte> bytes) override { file_->write_at(file_->size(), bytes); }
  void flush() override { file_->flush(); }
  void close() override { close_(); }

 private:
  std::shared_ptr<SimulatedDisk::File> file_;
  std::function<void()> close_;
};

}  // namespace

bool SimulatedDisk::is_change(Operation operation) {
  switch (operation) {
    case Operation::open:
    case Operation::read:
    case Operation::close:
    case Operation::list:
    case Operation::status:
      return false;
    default:
      return true;
  }
}

SimulatedDisk::File::File(SimulatedDisk &disk, std::shared_ptr<Node> node, fs::path path)
    : disk_(disk), node_(std::move(node)), path_(std::move(path)), session_(disk.sessions_) {}

std::size_t SimulatedDisk::File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (session_ != disk_.sessions_) throw PowerLost{};
  if (const int error = disk_.before(Operation::read, path_)) throw_file_error("cannot read", path_, error);
  if (offset >= node_->seen.size()) return 0;
  const std::size_t bytes = std::min<std::uint64_t>(out.size(), node_->seen.size() - offset);
  if (bytes > 0) std::memcpy(out.data(), node_->seen.data() + offset, bytes);
  return bytes;
}

void SimulatedDisk::File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (session_ != disk_.sessions_) throw PowerLost{};
  const int error = disk_.before(Operation::write, path_);
  const std::size_t written = error != 0 ? bytes.size() / 2 : bytes.size();
  if (written > 0) {
    node_->change({offset, std::string(reinterpret_cast<const char *>(bytes.data()), written), false});
  }
  node_->modified = ++disk_.clock_;
  if (error != 0) throw_file_error("cannot write", path_, error);
}

void SimulatedDisk::File::truncate(std::uint64_t bytes) {
  if (session_ != disk_.sessions_) throw PowerLost{};
  if (const int error = disk_.before(Operation::truncate, path_))
    throw_file_error("cannot cut", path_, error);
  node_->change({bytes, {}, true});
  node_->modified = ++disk_.clock_;
}

std::uint64_t SimulatedDisk::File::size() const {
  if (session_ != disk_.sessions_) throw PowerLost{};
  return node_->seen.size();
}

void SimulatedDisk::File::flush() {
  if (session_ != disk_.sessions_) throw PowerLost{};
  if (const int error = disk_.before(Operation::flush, path_)) {
    node_->pending.clear();
    throw_flush_error("cannot flush", path_, error);
  }
  if (!disk_.ignore_file_flushes) node_->flush_bytes();
}

SimulatedDisk::SimulatedDisk() : root_(make_node(true)) {}
SimulatedDisk::~SimulatedDisk() = default;

void SimulatedDisk::crash(core::Random &random) {
  root_->settle(random);
  restart();
}

void SimulatedDisk::restart() {
  ++sessions_;
  powered_ = true;
}

int SimulatedDisk::before(Operation operation, const fs::path &path) {
  if (!powered_) throw PowerLost{};
  const Call call{operations_++, operation, path};
  const auto failure = failures_.find(call.index);
  int error = failure == failures_.end() ? 0 : failure->second;
  if (before_operation) {
    try {
      if (const int told = before_operation(call)) error = told;
    } catch (const PowerLost &) {
      powered_ = false;
      throw;
    }
  }
  return error;
}

std::shared_ptr<SimulatedDisk::Node> SimulatedDisk::find(const fs::path &path) const {
  std::shared_ptr<Node> node = root_;
  for (const fs::path &part : path.relative_path()) {
    if (part.empty() || part == ".") continue;
    if (!node->is_folder) return nullptr;
    const auto at = node->seen_entries.find(part.string());
    if (at == node->seen_entries.end()) return nullptr;
    node = at->second;
  }
  return node;
}

std::shared_ptr<SimulatedDisk::Node> SimulatedDisk::folder_of(const fs::path &path, const char *what) const {
  auto folder = find(path.parent_path());
  if (!folder) throw_file_error(what, path, ENOENT);
  if (!folder->is_folder) throw_file_error(what, path, ENOTDIR);
  return folder;
}

std::shared_ptr<SimulatedDisk::Node> SimulatedDisk::make_node(bool is_folder) {
  auto node = std::make_shared<Node>();
  node->is_folder = is_folder;
  node->number = ++nodes_;
  node->modified = ++clock_;
  return node;
}

std::shared_ptr<SimulatedDisk::Node> SimulatedDisk::make_file(const fs::path &path) {
  if (const int error = before(Operation::create, path)) throw_file_error("cannot create", path, error);
  const auto folder = folder_of(path, "cannot create");
  if (folder->seen_entries.contains(path.filename().string()))
    throw_file_error("cannot create", path, EEXIST);
  auto node = make_node(false);
  folder->change_entry({{}, path.filename().string(), node});
  return node;
}

std::shared_ptr<SimulatedDisk::File> SimulatedDisk::open_file(const fs::path &path, bool create) {
  auto node = find(path);
  if (!node && create) {
    node = make_file(path);
  } else {
    if (const int error = before(Operation::open, path)) throw_file_error("cannot open", path, error);
    if (!node) throw_file_error("cannot open", path, ENOENT);
  }
  if (node->is_folder) throw Error(ErrorCode::invalid_argument, path.string() + " is not a regular file");
  return std::shared_ptr<File>(new File(*this, std::move(node), path));
}

bool SimulatedDisk::exists(const fs::path &path) { return status(path).has_value(); }

std::vector<std::string> SimulatedDisk::files() const {
  std::vector<std::string> paths;
  const std::function<void(const Node &, const std::string &)> walk = [&](const Node &folder,
                                                                          const std::string &prefix) {
    for (const auto &[name, node] : folder.seen_entries) {
      if (node->is_folder) {
        walk(*node, prefix + name + "/");
      } else {
        paths.push_back(prefix + name);
      }
    }
  };
  walk(*root_, "/");
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::unique_ptr<system::ReadableFile> SimulatedDisk::open(const fs::path &path) {
  return std::make_unique<SimulatedReader>(open_file(path, false));
}

std::unique_ptr<system::WritableFile> SimulatedDisk::create(const fs::path &path, unsigned) {
  const std::shared_ptr<File> file(new File(*this, make_file(path), path));
  return std::make_unique<SimulatedWriter>(file, [this, path] {
    if (const int error = before(Operation::close, path)) throw_flush_error("cannot close", path, error);
  });
}

void SimulatedDisk::rename(const fs::path &from, const fs::path &to) {
  const std::string what = "cannot rename " + from.string() + " to";
  if (const int error = before(Operation::rename, to)) throw_file_error(what, to, error);
  const auto folder = folder_of(from, what.c_str());
  if (folder_of(to, what.c_str()) != folder) throw_file_error(what, to, EXDEV);
  const auto node = find(from);
  if (!node) throw_file_error(what, to, ENOENT);
  if (const auto target = find(to); target && target->is_folder) throw_file_error(what, to, EISDIR);
  folder->change_entry({from.filename().string(), to.filename().string(), node});
}

bool SimulatedDisk::rename_new(const fs::path &from, const fs::path &to) {
  if (find(to) || !find(from)) return false;
  rename(from, to);
  return true;
}

bool SimulatedDisk::remove(const fs::path &path) {
  if (const int error = before(Operation::remove, path)) throw_file_error("cannot remove", path, error);
  const auto node = find(path);
  if (!node) return false;
  if (node->is_folder) throw_file_error("cannot remove", path, EISDIR);
  folder_of(path, "cannot remove")->change_entry({path.filename().string(), {}, nullptr});
  return true;
}

bool SimulatedDisk::make_folder(const fs::path &path, unsigned) {
  const char *what = "cannot make the folder";
  if (const int error = before(Operation::make_folder, path)) throw_file_error(what, path, error);
  if (find(path)) return false;
  folder_of(path, what)->change_entry({{}, path.filename().string(), make_node(true)});
  return true;
}

bool SimulatedDisk::remove_folder(const fs::path &path) {
  const char *what = "cannot remove the folder";
  if (const int error = before(Operation::remove_folder, path)) throw_file_error(what, path, error);
  const auto node = find(path);
  if (!node || !node->is_folder || !node->seen_entries.empty()) return false;
  folder_of(path, what)->change_entry({path.filename().string(), {}, nullptr});
  return true;
}

bool SimulatedDisk::may_open_folder(const fs::path &) { return true; }

void SimulatedDisk::flush_folder(const fs::path &path) {
  const int error = before(Operation::flush_folder, path);
  const auto node = find(path);
  if (!node || !node->is_folder) throw_file_error("cannot open the folder", path, ENOENT);
  if (error != 0) {
    node->pending_entries.clear();
    throw_flush_error("cannot flush the folder", path, error);
  }
  if (!ignore_folder_flushes) node->flush_entries();
}

std::vector<system::FolderEntry> SimulatedDisk::list(const fs::path &path) {
  if (const int error = before(Operation::list, path)) throw_file_error("cannot list", path, error);
  const auto node = find(path);
  if (!node || !node->is_folder) throw_file_error("cannot list", path, ENOENT);
  std::vector<system::FolderEntry> entries;
  for (const auto &[name, one] : node->seen_entries) {
    entries.push_back({name, one->is_folder ? FileKind::folder : FileKind::regular});
  }
  return entries;
}

std::optional<system::FileStatus> SimulatedDisk::status(const fs::path &path) {
  if (const int error = before(Operation::status, path)) throw_file_error("cannot look at", path, error);
  const auto node = find(path);
  if (!node) return std::nullopt;
  return system::FileStatus{
      node->is_folder ? FileKind::folder : FileKind::regular,
      {1, node->number, node->seen.size(), static_cast<std::int64_t>(node->modified), 0}};
}

std::string SimulatedDisk::session() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sessions_));
  return text;
}

std::string SimulatedDisk::unique() {
  char text[17];
  std::snprintf(text, sizeof text, "%08llx", static_cast<unsigned long long>(++names_ & 0xffffffff));
  return text;
}

}  // namespace parsyn::test
