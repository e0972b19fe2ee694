// The objects that a worker keeps between tasks, as files named by their SHA-256, up to a number of bytes.
//
// When a new one needs room, those go first that were used longest ago; a file's modification time is its
// last use, so that a worker that starts again knows it, too. What a task uses stays, even over the bound.
// They are training data, and their folder is its owner's alone.
//
// Thread-safety: one thread at a time. The folder is this cache's alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "parsyn/transport.hpp"

namespace parsyn::worker {

class ObjectCache {
 public:
  using Download = std::function<void(const ObjectRef &, const std::filesystem::path &)>;

  /// Makes the folder, and removes what is over the bound already. Throws Error(io).
  ObjectCache(std::filesystem::path folder, std::uint64_t bytes_max, Download download);

  /// From now on these objects stay, whatever needs room.
  void keep(std::set<std::string> sha256);
  /// The object's file, downloaded unless it is there and whole. Throws what the download throws, and
  /// Error(protocol) for an object whose digest is no SHA-256: it could be the path of any file.
  std::filesystem::path fetch(const ObjectRef &object);
  void remove(const std::filesystem::path &file);

 private:
  void make_room(std::uint64_t bytes);

  const std::filesystem::path folder_;
  const std::uint64_t bytes_max_;
  const Download download_;
  std::set<std::string> kept_;
};

}  // namespace parsyn::worker
