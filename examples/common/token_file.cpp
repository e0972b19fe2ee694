#include "common/token_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string_view>
#include <system_error>

#include "parsyn/error.hpp"
#include "system/files.hpp"
#include "text/trimmed.hpp"

namespace parsyn::programs {
namespace {

constexpr std::uint64_t kTokenFileBytesMax = 4'096;
constexpr std::string_view kWhiteSpace = " \t\r\n";

}  // namespace

std::string read_token_file(const std::filesystem::path &path,
                            const std::function<void(const std::string &)> &warn) {
  const std::string token(text::trimmed(system::read_text_file(path, kTokenFileBytesMax), kWhiteSpace));
  if (token.empty())
    throw Error(ErrorCode::invalid_argument, "the token file " + path.string() + " is empty");
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

void check_token_file_is_new(const std::filesystem::path &path) {
  std::error_code failed;
  const auto there = std::filesystem::symlink_status(path, failed).type();
  if (there == std::filesystem::file_type::symlink && !std::filesystem::exists(path, failed)) {
    throw Error(
        ErrorCode::conflict,
        path.string() + " is a symbolic link to nothing: name the file itself for the worker's token");
  }
  if (there != std::filesystem::file_type::not_found && there != std::filesystem::file_type::none) {
    throw Error(
        ErrorCode::conflict,
        path.string() +
            " is there already, and may hold a token in use: name another file for the worker's token");
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!path.has_filename() || !std::filesystem::is_directory(folder, failed)) {
    throw Error(ErrorCode::io, path.string() + " cannot be made: there is no folder " + folder.string());
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw Error(ErrorCode::io, path.string() + " cannot be made in " + folder.string() + ": " +
                                   std::system_category().message(errno));
  }
}

void write_token_file(const std::filesystem::path &path, const std::string &token,
                      system::FileSystem &files) {
  const std::string text = token + "\n";
  system::AtomicFile file(path, system::kPrivateFile, files);
  file.write(std::as_bytes(std::span(text.data(), text.size())));
  if (!file.commit_new()) {
    throw Error(
        ErrorCode::conflict,
        path.string() + " is there already, and may hold a token in use: name another file, or remove it");
  }
}

}  // namespace parsyn::programs
