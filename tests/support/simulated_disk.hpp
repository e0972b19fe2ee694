// A disk in memory that loses what was not flushed when its power fails, as real ones do, and more often.
//
// Each file has the bytes that are on the disk and a list of writes that are not; each folder has its entries
// on the disk and a list of changes to them that are not. What a program sees is both together. flush() and
// flush_folder() bring the one list or the other to the disk; nothing else does, and the one does not do the
// work of the other. crash() keeps
// - of a file's pending writes any subset of their 512-byte sectors (a sector is written whole or not at
// all);
//   where one is lost that made the file longer, zeros may take its place;
// - of a folder's pending changes the first few, in their order, whatever has become of the files' bytes: a
// renamed
//   file may be empty or torn.
// A flush that fails (EIO) also takes what was pending off the list: it is seen until the next crash, and
// then it is gone, though later flushes say that all is well. Linux does that.
//
// Everything follows from the calls and the draws, so a run can be repeated. Not for several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "system/file_system.hpp"

namespace parsyn::test {

/// Thrown by every operation from the moment when the power fails until crash() or restart(). Not a
/// std::exception, so that nobody takes it for a failure that can be handled.
struct PowerLost {};

class SimulatedDisk final : public system::FileSystem {
 public:
  enum class Operation {
    open,
    create,
    read,
    write,
    truncate,
    flush,
    close,
    rename,
    remove,
    make_folder,
    remove_folder,
    flush_folder,
    list,
    status,
  };
  struct Call {
    std::uint64_t index;  ///< Of all operations, from 0.
    Operation operation;
    std::filesystem::path path;
  };
  /// Whether an operation of this kind changes what the disk holds, or will hold after a crash.
  static bool is_change(Operation operation);

  /// A file by handle, as a database's file layer needs it. It can still be used when its name is removed;
  /// after crash() or restart() every call throws PowerLost.
  class File {
   public:
    /// Says how many bytes there were; 0 at the end.
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) const;
    /// Zeros fill what lies between the end and `offset`.
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    void truncate(std::uint64_t bytes);
    std::uint64_t size() const;
    void flush();

   private:
    friend class SimulatedDisk;
    struct Node;
    File(SimulatedDisk &disk, std::shared_ptr<Node> node, std::filesystem::path path);

    SimulatedDisk &disk_;
    std::shared_ptr<Node> node_;
    std::filesystem::path path_;
    std::uint64_t session_;
  };

  SimulatedDisk();
  ~SimulatedDisk() override;
  SimulatedDisk(const SimulatedDisk &) = delete;
  SimulatedDisk &operator=(const SimulatedDisk &) = delete;

  /// Called before each operation takes effect. Returns an errno to let it fail, or 0; throws PowerLost to
  /// let the power fail now. A write that fails has written half.
  std::function<int(const Call &)> before_operation;
  /// Lets the operation with this index fail.
  void fail(std::uint64_t index, int error) { failures_[index] = error; }
  /// For tests of tests: flushes succeed and do nothing.
  bool ignore_file_flushes = false;
  bool ignore_folder_flushes = false;

  /// The number of operations so far: the next one's index.
  std::uint64_t operations() const { return operations_; }
  /// From now on every operation throws PowerLost.
  void lose_power() { powered_ = false; }
  /// The machine loses its power and comes back.
  void crash(core::Random &random);
  /// The process ends and another starts; what it has written is still on its way to the disk.
  void restart();

  /// Throws like open() and create(). `create`: where there is none; flush_folder() makes it durable.
  std::shared_ptr<File> open_file(const std::filesystem::path &path, bool create);
  bool exists(const std::filesystem::path &path);
  /// The paths of all files, sorted; not an operation.
  std::vector<std::string> files() const;

  std::unique_ptr<system::ReadableFile> open(const std::filesystem::path &path) override;
  std::unique_ptr<system::WritableFile> create(const std::filesystem::path &path, unsigned mode) override;
  /// Within one folder only.
  void rename(const std::filesystem::path &from, const std::filesystem::path &to) override;
  bool rename_new(const std::filesystem::path &from, const std::filesystem::path &to) override;
  bool remove(const std::filesystem::path &path) override;
  bool make_folder(const std::filesystem::path &path, unsigned mode) override;
  bool may_open_folder(const std::filesystem::path &path) override;
  bool remove_folder(const std::filesystem::path &path) override;
  void flush_folder(const std::filesystem::path &path) override;
  std::vector<system::FolderEntry> list(const std::filesystem::path &path) override;
  std::optional<system::FileStatus> status(const std::filesystem::path &path) override;
  std::string session() const override;
  std::string unique() override;

 private:
  using Node = File::Node;

  int before(Operation operation, const std::filesystem::path &path);
  /// Null: not there.
  std::shared_ptr<Node> find(const std::filesystem::path &path) const;
  /// Throws where it is not there.
  std::shared_ptr<Node> folder_of(const std::filesystem::path &path, const char *what) const;
  std::shared_ptr<Node> make_node(bool is_folder);
  std::shared_ptr<Node> make_file(const std::filesystem::path &path);

  std::shared_ptr<Node> root_;
  std::map<std::uint64_t, int> failures_;
  std::uint64_t operations_ = 0;
  std::uint64_t nodes_ = 0;
  std::uint64_t sessions_ = 1;
  std::uint64_t names_ = 0;
  std::uint64_t clock_ = 0;
  bool powered_ = true;
};

}  // namespace parsyn::test
