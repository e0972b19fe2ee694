#include "system/disk_kind.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "parsyn/error.hpp"

namespace parsyn::system {
namespace {

struct KnownMagic {
  std::uint32_t magic;
  Disk disk;
};

// linux/magic.h, and the sources of those file systems that are not in the kernel.
constexpr KnownMagic kKnown[] = {
    {0x00006969, {DiskKind::network, "NFS"}},
    {0x0000517B, {DiskKind::network, "SMB"}},
    {0xFF534D42, {DiskKind::network, "SMB (CIFS)"}},
    {0xFE534D42, {DiskKind::network, "SMB2"}},
    {0x00C36400, {DiskKind::network, "Ceph"}},
    {0x5346414F, {DiskKind::network, "AFS"}},
    {0x6B414653, {DiskKind::network, "AFS"}},
    {0x01021997, {DiskKind::network, "9P"}},
    {0x0BD00BD0, {DiskKind::network, "Lustre"}},
    {0x01161970, {DiskKind::network, "GFS2"}},
    {0x7461636F, {DiskKind::network, "OCFS2"}},
    {0x73757245, {DiskKind::network, "Coda"}},
    {0x0000564C, {DiskKind::network, "NCP"}},
    {0x47504653, {DiskKind::network, "GPFS"}},
    {0x19830326, {DiskKind::network, "BeeGFS"}},
    {0x20030528, {DiskKind::network, "OrangeFS"}},
    {0xAAD7AAEA, {DiskKind::network, "PanFS"}},
    {0x786F4256, {DiskKind::network, "a VirtualBox shared folder"}},
    {0xBACBACBC, {DiskKind::network, "a VMware shared folder"}},
    {0x65735546, {DiskKind::user, "FUSE"}},
    {0x01021994, {DiskKind::memory, "tmpfs"}},
    {0x858458F6, {DiskKind::memory, "ramfs"}},
};

}  // namespace

Disk disk_of_magic(std::uint32_t magic) {
  const auto *const known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                         [&](const KnownMagic &entry) { return entry.magic == magic; });
  return known == std::end(kKnown) ? Disk{} : known->disk;
}

Disk disk_of(const std::filesystem::path &path) {
  struct statfs info {};
  int result = 0;
  do {
    result = ::statfs(path.c_str(), &info);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    const int error = errno;
    throw Error(error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io,
                "cannot tell what kind of disk holds " + path.string() + ": " +
                    std::system_category().message(error));
  }
  // A signed long on some machines, where the upper bits are the sign's.
  return disk_of_magic(static_cast<std::uint32_t>(info.f_type));
}

std::string why_not_local_disk(const std::filesystem::path &path) {
  const Disk disk = disk_of(path);
  if (disk.kind != DiskKind::network) return {};
  return path.string() + " is on " + std::string(disk.name) +
         ", which machines share over a network: its locks and flushes cannot be relied on, and what is kept "
         "there could be lost or damaged; choose a folder on a local disk";
}

}  // namespace parsyn::system
