#include "data/numbers.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace parsyn::data {

ParsedNumber parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.empty()) return {.fault = NumberFault::missing};
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);

  ParsedNumber number;
  const char *end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, number.integer);
  number.is_integer = whole.ptr == end;
  if (number.is_integer && whole.ec != std::errc()) return {.fault = NumberFault::out_of_range};

  double value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::invalid_argument || read.ptr != end) return {.fault = NumberFault::not_a_number};
  if (read.ec != std::errc()) return {.fault = NumberFault::out_of_range};
  if (!std::isfinite(value)) return {.fault = NumberFault::not_finite};
  number.value = static_cast<float>(value);
  if (!std::isfinite(number.value)) return {.fault = NumberFault::out_of_range};
  return number;
}

std::string_view fault_text(NumberFault fault) {
  switch (fault) {
    case NumberFault::none:
      return "is a number";
    case NumberFault::missing:
      return "is missing";
    case NumberFault::not_a_number:
      return "is not a number";
    case NumberFault::not_finite:
      return "is not finite";
    case NumberFault::out_of_range:
      return "does not fit (32-bit floats, 64-bit whole numbers)";
  }
  return "is not a number";
}

}  // namespace parsyn::data
