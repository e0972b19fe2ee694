// What a coordinator has told of a job, by the type of the event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/coordinator.hpp"

namespace parsyn::test {

/// The texts of all events of this type, in order.
inline std::vector<std::string> event_texts(const Coordinator &coordinator, Id job, std::string_view type) {
  std::vector<std::string> texts;
  for (const parsyn::Event &event : coordinator.events_after(job, 0, SIZE_MAX)) {
    if (event.type == type) texts.push_back(event.text);
  }
  return texts;
}

}  // namespace parsyn::test
