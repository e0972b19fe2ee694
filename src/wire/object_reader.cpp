#include "wire/object_reader.hpp"

#include <cmath>

#include "core/name_check.hpp"
#include "text/utf8.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytes = 60;  // of a peer's text, in a message
/// Every whole number up to this one has a double of its own.
constexpr double kExactWholeMax = 9007199254740992.0;

/// How a value is named in a message.
std::string shown(const json &value) {
  switch (value.type()) {
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "a list";
    case json::value_t::string:
      return "the text \"" + text::printable(value.get_ref<const std::string &>(), kShownBytes) + "\"";
    default:
      return value.dump();
  }
}

}  // namespace

ObjectReader::ObjectReader(const json &value, std::string path, FaultList &faults, UnknownFields unknown)
    : value_(value.is_object() ? &value : nullptr),
      path_(std::move(path)),
      faults_(faults),
      unknown_(unknown) {
  if (value_ == nullptr) {
    faults_.add(path_, "type",
                (path_.empty() ? "the document" : path_) + " is " + shown(value) + "; it must be an object");
  }
}

bool ObjectReader::has(std::string_view name) const {
  if (value_ == nullptr) return false;
  const auto found = value_->find(name);
  return found != value_->end() && !found->is_null();
}

void ObjectReader::fault(std::string_view name, std::string code, const std::string &what) {
  const std::string path = path_of(name);
  faults_.add(path, std::move(code), path + " " + what);
}

const json *ObjectReader::find(std::string_view name, Presence presence) {
  if (value_ == nullptr) return nullptr;
  known_.emplace_back(name);
  const auto found = value_->find(name);
  if (found == value_->end()) {
    if (presence == Presence::required) fault(name, "required", "is missing");
    return nullptr;
  }
  if (found->is_null() && presence == Presence::nullable) return nullptr;
  return &*found;
}

std::optional<ObjectReader> ObjectReader::object(std::string_view name, Presence presence) {
  const json *value = find(name, presence);
  if (value == nullptr) return std::nullopt;
  return ObjectReader(*value, path_of(name), faults_, unknown_);
}

void ObjectReader::read(std::string_view name, bool &out, Presence presence) {
  const json *value = find(name, presence);
  if (value == nullptr) return;
  if (value->is_boolean()) {
    out = value->get<bool>();
  } else {
    fault(name, "type", "is " + shown(*value) + "; it must be true or false");
  }
}

void ObjectReader::read(std::string_view name, double &out, Presence presence) {
  if (const json *value = find(name, presence)) {
    if (const auto result = number(*value, path_of(name))) out = *result;
  }
}

void ObjectReader::read(std::string_view name, std::optional<double> &out) {
  if (const json *value = find(name, Presence::nullable)) out = number(*value, path_of(name));
}

void ObjectReader::read(std::string_view name, std::string &out, const TextRule &rule, Presence presence) {
  if (const json *value = find(name, presence)) {
    if (auto result = text(*value, path_of(name), rule)) out = std::move(*result);
  }
}

void ObjectReader::read_name(std::string_view name, std::string &out, Presence presence) {
  const json *value = find(name, presence);
  if (value == nullptr) return;
  if (!value->is_string()) {
    fault(name, "type", "is " + shown(*value) + "; it must be text");
  } else if (const std::string why = core::why_name_is_refused(value->get_ref<const std::string &>());
             !why.empty()) {
    fault(name, "format", why);
  } else {
    out = value->get<std::string>();
  }
}

void ObjectReader::read_whole_list(std::string_view name, std::vector<std::uint64_t> &out,
                                   const core::WholeRange &range, std::size_t count_max, Presence presence) {
  for (const auto &[value, path] : elements(name, count_max, presence)) {
    // A refused entry keeps its place, so that later messages count right.
    out.push_back(whole(*value, path, range).value_or(0));
  }
}

void ObjectReader::read_numbers(std::string_view name, std::vector<double> &out, std::size_t count_max,
                                Presence presence) {
  for (const auto &[value, path] : elements(name, count_max, presence)) {
    if (const auto result = number(*value, path)) out.push_back(*result);
  }
}

void ObjectReader::read_texts(std::string_view name, std::vector<std::string> &out, const TextRule &rule,
                              std::size_t count_max, Presence presence) {
  for (const auto &[value, path] : elements(name, count_max, presence)) {
    if (auto result = text(*value, path, rule)) out.push_back(std::move(*result));
  }
}

std::vector<std::pair<const json *, std::string>> ObjectReader::elements(std::string_view name,
                                                                         std::size_t count_max,
                                                                         Presence presence) {
  const json *value = find(name, presence);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    fault(name, "type", "is " + shown(*value) + "; it must be a list");
    return {};
  }
  if (value->size() > count_max) {
    fault(name, "range",
          "has " + std::to_string(value->size()) + " entries; at most " + std::to_string(count_max) +
              " are possible");
    return {};
  }
  std::vector<std::pair<const json *, std::string>> result;
  result.reserve(value->size());
  const std::string path = path_of(name);
  for (const json &element : *value) result.emplace_back(&element, index_path(path, result.size()));
  return result;
}

void ObjectReader::finish() {
  if (value_ == nullptr || unknown_ == UnknownFields::ignored) return;
  std::string fields;
  for (const std::string &name : known_) fields += (fields.empty() ? "" : ", ") + name;
  for (const auto &member : value_->items()) {
    if (std::find(known_.begin(), known_.end(), member.key()) == known_.end()) {
      fault(member.key(), "unknown_field", "is not a field; the fields here are " + fields);
    }
  }
}

std::optional<std::uint64_t> ObjectReader::whole(const json &value, const std::string &path,
                                                 const core::WholeRange &range) {
  const auto out_of_range = [&] {
    faults_.add(path, "range", path + " " + core::range_message(value.dump(), range));
  };
  std::uint64_t result = 0;
  if (value.is_number_unsigned()) {
    result = value.get<std::uint64_t>();
  } else if (value.is_number_integer()) {
    // nlohmann keeps as unsigned what is written without a sign; a value that a program made may be signed.
    if (value.get<std::int64_t>() < 0) {
      out_of_range();
      return std::nullopt;
    }
    result = static_cast<std::uint64_t>(value.get<std::int64_t>());
  } else if (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>()) {
    const double number = value.get<double>();
    if (number < 0 || number > kExactWholeMax) {
      out_of_range();
      return std::nullopt;
    }
    result = static_cast<std::uint64_t>(number);
  } else {
    faults_.add(path, "type",
                path + " is " + shown(value) + "; it must be a whole number from " +
                    std::to_string(range.min) + " to " + std::to_string(range.max));
    return std::nullopt;
  }
  if (!range.holds(result)) {
    out_of_range();
    return std::nullopt;
  }
  return result;
}

std::optional<double> ObjectReader::number(const json &value, const std::string &path) {
  if (const auto number = number_of(value)) return number;
  faults_.add(path, "type", path + " is " + shown(value) + "; it must be a number");
  return std::nullopt;
}

std::optional<std::string> ObjectReader::text(const json &value, const std::string &path,
                                              const TextRule &rule) {
  if (!value.is_string()) {
    faults_.add(path, "type", path + " is " + shown(value) + "; it must be text");
    return std::nullopt;
  }
  const std::string &written = value.get_ref<const std::string &>();
  if (written.size() > rule.bytes_max || written.size() < rule.bytes_min) {
    faults_.add(path, "format",
                path + " has " + std::to_string(written.size()) + " bytes; it must have " +
                    std::to_string(rule.bytes_min) + " to " + std::to_string(rule.bytes_max));
    return std::nullopt;
  }
  if (!text::has_control_characters(written)) return written;
  if (rule.characters == Characters::sentence) return text::printable(written, rule.bytes_max);
  faults_.add(path, "format", path + " has a control character; remove it");
  return std::nullopt;
}

void ObjectReader::refuse_choice(std::string_view name, const json &value, const std::string &right) {
  if (value.is_string()) {
    const std::string path = path_of(name);
    const std::string given = value.get_ref<const std::string &>().empty()
                                  ? "an empty text"
                                  : text::printable(value.get_ref<const std::string &>(), kShownBytes);
    faults_.add(path, "unknown_value", path + ": " + given + " is not available; use " + right);
  } else {
    fault(name, "type", "is " + shown(value) + "; it must be one of the texts " + right);
  }
}

}  // namespace parsyn::wire
