// What kind of disk lies below a folder: databases need one whose locks and flushes mean what they say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace parsyn::system {

enum class DiskKind {
  local,    ///< Or one that is not known here.
  network,  ///< Shared between machines: locks and flushes cannot be relied on.
  user,     ///< FUSE: a program decides.
  memory,   ///< Gone with the next restart of the machine.
};

struct Disk {
  DiskKind kind = DiskKind::local;
  std::string_view name;  ///< "NFS"; empty for local.
};

/// `magic`: statfs's f_type.
Disk disk_of_magic(std::uint32_t magic);
/// Of the file system that holds `path`. Throws Error(io) or Error(not_found).
Disk disk_of(const std::filesystem::path &path);
/// A sentence for the user, or empty where `path` (which exists) may hold a database.
std::string why_not_local_disk(const std::filesystem::path &path);

}  // namespace parsyn::system
