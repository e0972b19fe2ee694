#include "system/disk_kind.hpp"

#include <linux/magic.h>

#include "parsyn/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::system;
using namespace parsyn::test;

TEST_CASE("network file systems are known by their magic numbers") {
  for (const std::uint32_t magic :
       {std::uint32_t{NFS_SUPER_MAGIC}, std::uint32_t{SMB_SUPER_MAGIC}, std::uint32_t{CODA_SUPER_MAGIC},
        std::uint32_t{AFS_SUPER_MAGIC}, std::uint32_t{V9FS_MAGIC}, std::uint32_t{NCP_SUPER_MAGIC},
        std::uint32_t{OCFS2_SUPER_MAGIC}, std::uint32_t{0xFF534D42}, std::uint32_t{0xFE534D42},
        std::uint32_t{0x00C36400}, std::uint32_t{0x0BD00BD0}, std::uint32_t{0x01161970}}) {
    CAPTURE(magic);
    CHECK(disk_of_magic(magic).kind == DiskKind::network);
    CHECK(!disk_of_magic(magic).name.empty());
  }
  CHECK(disk_of_magic(NFS_SUPER_MAGIC).name == "NFS");
  CHECK(disk_of_magic(0x65735546).kind == DiskKind::user);
  CHECK(disk_of_magic(TMPFS_MAGIC).kind == DiskKind::memory);
}

TEST_CASE("local disks, and those that are not known, are local") {
  for (const std::uint32_t magic :
       {std::uint32_t{EXT4_SUPER_MAGIC}, std::uint32_t{XFS_SUPER_MAGIC}, std::uint32_t{BTRFS_SUPER_MAGIC},
        std::uint32_t{OVERLAYFS_SUPER_MAGIC}, std::uint32_t{0x12345678}}) {
    CHECK(disk_of_magic(magic).kind == DiskKind::local);
    CHECK(disk_of_magic(magic).name.empty());
  }
}

TEST_CASE("the disk of a folder is looked up, and one that is missing is an error") {
  const TemporaryFolder folder;
  CHECK(why_not_local_disk(folder.path()).empty());
  CHECK(error_of([&] { why_not_local_disk(folder.path() / "absent"); }).code() == ErrorCode::not_found);
}
