// A file that a download is written to, from an offset on, so that one that was cut short can be gone on
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace parsyn::http {

class OutputFile {
 public:
  /// Keeps the first `offset` bytes and cuts the rest. `mode`: permission bits of a file that is not there
  /// yet. Throws Error: io, also where a folder is missing; unavailable (no space); invalid_argument when the
  /// file is shorter.
  OutputFile(std::filesystem::path path, std::uint64_t offset, unsigned mode);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Throws Error: io, unavailable.
  void write(std::span<const std::byte> bytes);
  /// Throws the same, where the file system reports a failed write only now.
  void close();

 private:
  [[noreturn]] void fail(const char *what, int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace parsyn::http
