#include "job/event_parser.hpp"

#include <utility>

namespace parsyn::programs {

void EventParser::feed(std::string_view piece) {
  for (const char c : piece) {
    const bool second_half = after_carriage_return_ && c == '\n';
    after_carriage_return_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      take_line(std::exchange(rest_, {}));
    } else {
      rest_ += c;
    }
  }
}

void EventParser::reset() {
  rest_.clear();
  type_.clear();
  data_.clear();
  has_data_ = false;
  after_carriage_return_ = false;
  id_ = last_id_;
}

void EventParser::take_line(std::string_view line) {
  if (line.empty()) return dispatch();
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    type_ = value;
  } else if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (field == "id" && value.find('\0') == std::string_view::npos) {
    id_ = value;
  }
}

void EventParser::dispatch() {
  last_id_ = id_;
  if (!has_data_) {
    type_.clear();
    return;
  }
  const StreamEvent event{last_id_, type_.empty() ? "message" : type_, std::move(data_)};
  type_.clear();
  data_.clear();
  has_data_ = false;
  on_event_(event);
}

}  // namespace parsyn::programs
