#include "coordinator/state_folder.hpp"

#include <utility>

#include "common/token_file.hpp"
#include "system/files.hpp"
#include "system/random.hpp"

namespace parsyn::programs {
namespace {

constexpr std::size_t kTokenBytes = 32;

std::filesystem::path made(std::filesystem::path folder) {
  system::make_folders(std::filesystem::absolute(folder).lexically_normal());
  return folder;
}

}  // namespace

StateFolder::StateFolder(std::filesystem::path folder)
    : folder_(made(std::move(folder))),
      lock_(folder_, {.holder = "coordinator", .advice = "give this one another --state"}) {}

bool StateFolder::make_token_if_missing() const {
  // This process has the folder's lock: nobody else is making one.
  system::remove_unfinished(token_file());
  if (std::filesystem::exists(token_file())) return false;
  write_token_file(token_file(), system::random_hex(kTokenBytes));
  return true;
}

}  // namespace parsyn::programs
