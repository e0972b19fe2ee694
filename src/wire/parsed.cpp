#include "wire/parsed.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace parsyn::wire {

Error refusal(std::string_view what, std::vector<Fault> faults) {
  constexpr std::size_t kListedMax = 3;
  std::string message = "the " + std::string(what) + " is refused: ";
  for (std::size_t i = 0; i < std::min(faults.size(), kListedMax); ++i) {
    if (i > 0) message += "; ";
    message += faults[i].message;
  }
  if (faults.size() > kListedMax)
    message += "; and " + std::to_string(faults.size() - kListedMax) + " more faults";
  return Error(ErrorCode::invalid_argument, std::move(message), std::move(faults));
}

}  // namespace parsyn::wire
