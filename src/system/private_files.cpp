#include "system/private_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include "system/files.hpp"

namespace parsyn::system {

void make_private_file(const std::filesystem::path &path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPrivateFile);
  if (descriptor < 0) throw_file_error("cannot create", path, errno);
  if (::close(descriptor) != 0) throw_file_error("cannot create", path, errno);
}

pid_t lock_holder(const std::filesystem::path &path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  char file[64];
  std::snprintf(file, sizeof file, " %02x:%02x:%llu ", major(info.st_dev), minor(info.st_dev),
                static_cast<unsigned long long>(info.st_ino));
  // A line: "1: POSIX  ADVISORY  WRITE 4711 08:01:131090 1073741824 1073742335". One that waits has "->".
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    const auto at = line.find(file);
    if (at == std::string::npos || line.find("->") != std::string::npos) continue;
    const auto number = line.rfind(' ', at - 1);
    if (number == std::string::npos || number + 1 >= at) continue;
    pid_t pid = 0;
    for (std::size_t i = number + 1; i < at; ++i) {
      if (line[i] < '0' || line[i] > '9') return 0;
      pid = pid * 10 + (line[i] - '0');
    }
    return pid;
  }
  return 0;
}

}  // namespace parsyn::system
