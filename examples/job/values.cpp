#include "job/values.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "common/plain_text.hpp"
#include "text/encoding.hpp"

namespace parsyn::programs {
namespace {

/// Smaller numbers are shown with all their digits.
constexpr double kDigitsAllShown = 1e13;

}  // namespace

Json value_at(const Json &document, std::string_view path) {
  const Json *value = &document;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string name(path.substr(0, dot));
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
    if (value->is_object() && value->contains(name)) {
      value = &value->at(name);
    } else if (const auto index = text::parse_u64(name);
               index && value->is_array() && *index < value->size()) {
      value = &value->at(*index);
    } else {
      return nullptr;
    }
  }
  return *value;
}

std::string text_at(const Json &document, std::string_view path) {
  const Json value = value_at(document, path);
  if (value.is_null()) return "-";
  return plain_text(value.is_string() ? value.get<std::string>() : json_line(value));
}

std::string number_at(const Json &document, std::string_view path, int decimals) {
  const Json value = value_at(document, path);
  return value.is_number() ? fixed(value.get<double>(), decimals) : text_at(document, path);
}

std::uint64_t whole_at(const Json &document, std::string_view path) {
  const Json value = value_at(document, path);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

bool true_at(const Json &document, std::string_view path) { return value_at(document, path) == Json(true); }

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) return "NaN";
  // What diverges may have 300 digits.
  const char *format = std::abs(value) < kDigitsAllShown ? "%.*f" : "%.*e";
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), format, decimals, value);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

std::string json_line(const Json &document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace parsyn::programs
