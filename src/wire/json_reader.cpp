#include "wire/json_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/job_check.hpp"
#include "text/utf8.hpp"

namespace parsyn::wire {
namespace {

using nlohmann::json;

/// Line and column from 1, for a person with an editor.
std::string position_text(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

class TreeBuilder final : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(std::string_view text, FaultList &faults) : text_(text), faults_(faults) {}

  json take() { return std::move(root_); }

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  bool string(string_t &value) override { return place(std::move(value)); }
  bool binary(binary_t &) override { return false; }

  bool number_float(number_float_t value, const string_t &written) override {
    // The parser falls back to a double for an integer of more than 64 bits.
    if (written.find_first_of(".eE") == std::string::npos) {
      faults_.add(here(), "range",
                  name_here() + " is " + text::shortened(written, kShownBytes) +
                      ", which does not fit 64 bits; write a smaller number");
    }
    return place(value);
  }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t &name) override {
    Level &level = levels_.back();
    level.name = std::move(name);
    if (level.value->contains(level.name)) {
      faults_.add(here(), "duplicate_key", name_here() + " appears twice in one object; keep one of them");
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string &, const json::exception &error) override {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange) {
      faults_.add(here(), "range",
                  name_here() + " is a number that no double can hold; write a smaller number");
    } else if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      faults_.add("", "json", "the text is empty; a JSON object is expected");
    } else {
      faults_.add("", "json",
                  "the text is not valid JSON (RFC 8259) in UTF-8 at " + position_text(text_, position));
    }
    return false;
  }

 private:
  static constexpr std::size_t kShownBytes = 60;

  struct Level {
    json *value;
    std::string name;       // of the member that is being read, in an object
    std::size_t index = 0;  // of the element that is being read, in an array
    std::string path;
  };

  /// Path of the value that is being read.
  std::string here() const {
    if (levels_.empty()) return {};
    const Level &level = levels_.back();
    return level.value->is_array() ? index_path(level.path, level.index) : field_path(level.path, level.name);
  }
  std::string name_here() const {
    std::string path = here();
    return path.empty() ? "the value" : path;
  }

  json *insert(json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level &level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    json &member = (*level.value)[level.name];
    member = std::move(value);
    return &member;
  }

  void advance() {
    if (!levels_.empty()) ++levels_.back().index;
  }

  template <typename T>
  bool place(T &&value) {
    insert(json(std::forward<T>(value)));
    advance();
    return true;
  }

  bool open(json value) {
    if (levels_.size() >= limits::kJsonDepthMax) {
      faults_.add("", "json",
                  "objects and arrays are nested deeper than " + std::to_string(limits::kJsonDepthMax) +
                      " (kJsonDepthMax)");
      return false;
    }
    // A container's address is stable while it is being read: its parent grows only after it is closed.
    std::string path = here();
    json *const added = insert(std::move(value));
    levels_.push_back({added, {}, 0, std::move(path)});
    return true;
  }

  bool close() {
    levels_.pop_back();
    advance();
    return true;
  }

  std::string_view text_;
  FaultList &faults_;
  json root_;
  std::vector<Level> levels_;
};

}  // namespace

void FaultList::add(std::string field, std::string code, std::string message) {
  const auto same = [&](const Fault &fault) { return fault.field == field; };
  if (std::any_of(faults_.begin(), faults_.end(), same)) return;
  if (faults_.size() >= kFaultsMax) {
    ++left_out_;
    return;
  }
  faults_.push_back({std::move(field), std::move(code), std::move(message)});
}

bool FaultList::touches(std::string_view field) const {
  return std::any_of(faults_.begin(), faults_.end(),
                     [&](const Fault &fault) { return core::overlap(fault.field, field); });
}

std::vector<std::string> FaultList::fields() const {
  std::vector<std::string> fields;
  for (const Fault &fault : faults_) fields.push_back(fault.field);
  return fields;
}

std::vector<Fault> FaultList::take() {
  if (left_out_ > 0) {
    faults_.push_back({"", "too_many", std::to_string(left_out_) + " further faults are not listed"});
    left_out_ = 0;
  }
  return std::exchange(faults_, {});
}

std::optional<json> read_json(std::string_view text, FaultList &faults, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    faults.add("", "json",
               "the text has " + std::to_string(text.size()) + " bytes; at most " +
                   std::to_string(bytes_max) + " are taken");
    return std::nullopt;
  }
  // The parser takes one for the end of the text, and what lies behind it would not be read.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    faults.add("", "json", "byte " + std::to_string(at) + " is a NUL, which JSON does not have");
    return std::nullopt;
  }
  TreeBuilder builder(text, faults);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

std::string field_path(std::string_view parent, std::string_view name) {
  constexpr std::size_t kNameBytes = 80;
  std::string path(parent);
  if (!path.empty()) path += '.';
  return path + text::printable(name, kNameBytes);
}

std::string index_path(std::string_view parent, std::size_t index) {
  return std::string(parent) + "[" + std::to_string(index) + "]";
}

}  // namespace parsyn::wire
