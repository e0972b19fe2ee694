#include "journal/batch_check.hpp"

#include <string>

#include "parsyn/error.hpp"

namespace parsyn::journal {
namespace {

void check_name(const std::string &name, const char *what) {
  if (name.empty()) {
    throw Error(ErrorCode::invalid_argument,
                std::string("a journal write has an empty ") + what + "; nothing of its batch is kept");
  }
}

}  // namespace

void check_batch(std::span<const JournalWrite> batch) {
  for (const JournalWrite &write : batch) {
    check_name(write.table, "table");
    check_name(write.key, "key");
  }
}

}  // namespace parsyn::journal
