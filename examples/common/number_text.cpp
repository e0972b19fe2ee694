#include "common/number_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "common/plain_text.hpp"
#include "text/encoding.hpp"

namespace parsyn::programs {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::optional<std::uint64_t> whole_number(std::string_view text) {
  // Whether 010 is ten or eight, not all readers agree.
  if (text.size() > 1 && text.starts_with('0')) return std::nullopt;
  return text::parse_u64(text);
}

std::optional<double> decimal_number(std::string_view text) {
  // Neither a sign nor "inf" or "nan".
  if (text.empty() || (kDigits.find(text.front()) == std::string_view::npos && text.front() != '.'))
    return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string quoted(std::string_view text) { return "'" + plain_text(text) + "'"; }

std::string range_text(double min, double max) {
  std::ostringstream text;
  text << "from " << min << " to " << std::fixed << max;
  std::string range = text.str();
  range.erase(range.find_last_not_of('0') + 1);
  if (range.ends_with('.')) range.pop_back();
  return range;
}

}  // namespace

std::string whole_number_fault(std::string_view text, std::uint64_t min, std::uint64_t max) {
  const auto number = whole_number(text);
  if (number && *number >= min && *number <= max) return {};
  return quoted(text) + " is not a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
         " in plain digits";
}

std::string decimal_number_fault(std::string_view text, double min, double max) {
  const auto number = decimal_number(text);
  if (number && *number >= min && *number <= max) return {};
  return quoted(text) + " is not a plain decimal number " + range_text(min, max);
}

std::string decimal_text(double value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string size_fault(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of(kDigits), text.size());
  std::string_view unit = text.substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const bool has_odd_unit = unit.find_first_not_of(kLetters) != std::string_view::npos;
  if (whole_number(text.substr(0, digits)) && !has_odd_unit) return {};
  return quoted(text) + " is not a size such as 800MB or 50GiB";
}

std::string round_choice_fault(std::string_view text) {
  const auto number = whole_number(text);
  if (text == "best" || number) return {};
  return quoted(text) + " is neither a round's number in plain digits nor best";
}

std::string job_and_round_fault(std::string_view text) {
  const std::size_t colon = text.find(':');
  const bool has_round = colon != std::string_view::npos;
  if (whole_number(text.substr(0, colon)) &&
      (!has_round || round_choice_fault(text.substr(colon + 1)).empty()))
    return {};
  return quoted(text) + " must look like ID, ID:ROUND or ID:best";
}

}  // namespace parsyn::programs
