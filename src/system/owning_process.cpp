#include "system/owning_process.hpp"

#include <string>

#include "parsyn/error.hpp"

namespace parsyn::system {

void OwningProcess::refuse(std::string_view what) const {
  throw Error(ErrorCode::unsupported, std::string(what) + " belongs to process " + std::to_string(id_) +
                                          ", and does not work in its child " + std::to_string(::getpid()) +
                                          ": its threads did not survive fork(); make another one here");
}

}  // namespace parsyn::system
