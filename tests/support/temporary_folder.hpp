// A folder that exists as long as a test needs it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace parsyn::test {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path &parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "parsyn-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot make a folder in " + parent.string());
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  const std::filesystem::path &path() const { return path_; }

  /// Writes a file in it, and returns its path.
  std::filesystem::path file(const std::string &name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace parsyn::test
