#include "http/byte_range.hpp"

#include <algorithm>

#include "http/text.hpp"
#include "text/encoding.hpp"
#include "text/trimmed.hpp"

namespace parsyn::http {

RangeRequest parse_range(std::string_view header, std::uint64_t size) {
  using Kind = RangeRequest::Kind;
  const RangeRequest whole;
  const auto equals = header.find('=');
  if (equals == std::string_view::npos || !same_word(text::trimmed(header.substr(0, equals)), "bytes"))
    return whole;
  const std::string_view spec = text::trimmed(header.substr(equals + 1));
  const auto dash = spec.find('-');
  if (dash == std::string_view::npos || spec.find(',') != std::string_view::npos) return whole;
  const std::string_view first_text = spec.substr(0, dash);
  const std::string_view last_text = spec.substr(dash + 1);

  if (first_text.empty()) {
    const auto suffix = text::parse_u64(last_text);
    if (!suffix) return whole;
    if (*suffix == 0 || size == 0) return {Kind::unsatisfiable, {}};
    return {Kind::part, {size - std::min(*suffix, size), size - 1}};
  }
  const auto first = text::parse_u64(first_text);
  if (!first) return whole;
  std::uint64_t last = UINT64_MAX;
  if (!last_text.empty()) {
    const auto parsed = text::parse_u64(last_text);
    if (!parsed || *parsed < *first) return whole;
    last = *parsed;
  }
  if (*first >= size) return {Kind::unsatisfiable, {}};
  return {Kind::part, {*first, std::min(last, size - 1)}};
}

std::optional<ContentRange> parse_content_range(std::string_view header) {
  header = text::trimmed(header);
  const auto space = header.find(' ');
  if (space == std::string_view::npos || !same_word(header.substr(0, space), "bytes")) return std::nullopt;
  const std::string_view spec = text::trimmed(header.substr(space + 1));
  const auto dash = spec.find('-');
  const auto slash = spec.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  const auto first = text::parse_u64(spec.substr(0, dash));
  const auto last = text::parse_u64(spec.substr(dash + 1, slash - dash - 1));
  if (!first || !last || *last < *first) return std::nullopt;
  ContentRange parsed{{*first, *last}, std::nullopt};
  const std::string_view size = spec.substr(slash + 1);
  if (size != "*") {
    parsed.size = text::parse_u64(size);
    if (!parsed.size || *last >= *parsed.size) return std::nullopt;
  }
  return parsed;
}

std::optional<std::uint64_t> parse_unsatisfied_range(std::string_view header) {
  header = text::trimmed(header);
  const auto space = header.find(' ');
  if (space == std::string_view::npos || !same_word(header.substr(0, space), "bytes")) return std::nullopt;
  const std::string_view spec = text::trimmed(header.substr(space + 1));
  return spec.starts_with("*/") ? text::parse_u64(spec.substr(2)) : std::nullopt;
}

}  // namespace parsyn::http
