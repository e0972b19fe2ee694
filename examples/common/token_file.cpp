#include "common/token_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "parsyn/error.hpp"
#include "system/files.hpp"

namespace parsyn::programs {
namespace {

constexpr std::uint64_t kTokenFileBytesMax = 4'096;
constexpr std::string_view kWhiteSpace = " \t\r\n";

}  // namespace

std::string read_token_file(const std::filesystem::path &path,
                            const std::function<void(const std::string &)> &warn) {
  const std::string text = system::read_text_file(path, kTokenFileBytesMax);
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string::npos)
    throw Error(ErrorCode::invalid_argument, "the token file " + path.string() + " is empty");
  const std::string token = text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
  if (token.find_first_of(kWhiteSpace) != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                "the token file " + path.string() + " must hold one token and nothing else");
  }
  std::error_code ignored;
  const auto permissions = std::filesystem::status(path, ignored).permissions();
  const auto others = std::filesystem::perms::group_read | std::filesystem::perms::others_read;
  if (!ignored && (permissions & others) != std::filesystem::perms::none) {
    warn("others may read the token file " + path.string() + ": run chmod 600 on it");
  }
  return token;
}

void write_token_file(const std::filesystem::path &path, const std::string &token) {
  const auto fail = [&](const std::string &what) -> Error {
    return Error(ErrorCode::io, what + " " + path.string() + ": " + std::system_category().message(errno));
  };
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0 && errno == EEXIST) {
    throw Error(
        ErrorCode::conflict,
        path.string() + " is there already, and may hold a token in use: name another file, or remove it");
  }
  if (descriptor < 0) throw fail("cannot create the token file");
  const std::string text = token + "\n";
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const bool flushed = ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (written != static_cast<ssize_t>(text.size()) || !flushed) throw fail("cannot write the token file");
}

}  // namespace parsyn::programs
