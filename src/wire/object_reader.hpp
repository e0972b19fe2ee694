// Internal to this layer: the fields of one JSON object, read into C++ values with a fault for each that is
// wrong.
//
// Thread-safety: one user.
// Lifetime: the JSON value and the FaultList outlive the reader.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/job_ranges.hpp"
#include "wire/json_reader.hpp"

namespace parsyn::wire {

/// What a field that is not known means: a typing error, or a newer peer.
enum class UnknownFields { refused, ignored };

enum class Presence {
  required,  ///< Absent is a fault.
  optional,  ///< Absent leaves the value as it is; null is a fault.
  nullable,  ///< Absent and null leave the value as it is.
};

enum class Characters {
  printable,  ///< Control characters are a fault.
  sentence,   ///< Control characters become spaces.
};

struct TextRule {
  std::size_t bytes_max = 0;
  std::size_t bytes_min = 0;
  Characters characters = Characters::printable;
};

/// The texts of an enumeration.
template <typename T, std::size_t N>
using Choices = std::array<std::pair<std::string_view, T>, N>;

class ObjectReader {
 public:
  /// A value that is no object is a fault, and then nothing is read and nothing is missing.
  ObjectReader(const nlohmann::json &value, std::string path, FaultList &faults, UnknownFields unknown);

  const std::string &path() const { return path_; }
  std::string path_of(std::string_view name) const { return field_path(path_, name); }
  /// Present and not null; does not make the field known.
  bool has(std::string_view name) const;
  void fault(std::string_view name, std::string code, const std::string &what);

  /// The field's value where there is one to read; makes the field known.
  const nlohmann::json *find(std::string_view name, Presence presence);
  std::optional<ObjectReader> object(std::string_view name, Presence presence);

  void read(std::string_view name, bool &out, Presence presence);
  /// Any number, and the texts "NaN", "Infinity" and "-Infinity".
  void read(std::string_view name, double &out, Presence presence);
  void read(std::string_view name, std::optional<double> &out);
  void read(std::string_view name, std::string &out, const TextRule &rule, Presence presence);
  void read_name(std::string_view name, std::string &out, Presence presence);

  template <typename T>
  void read_whole(std::string_view name, T &out, core::WholeRange range, Presence presence) {
    range.max = std::min<std::uint64_t>(range.max, std::numeric_limits<T>::max());
    if (const nlohmann::json *value = find(name, presence)) {
      if (const auto number = whole(*value, path_of(name), range)) out = static_cast<T>(*number);
    }
  }
  template <typename T>
  void read_whole(std::string_view name, std::optional<T> &out, const core::WholeRange &range) {
    T value{};
    read_whole(name, value, range, Presence::nullable);
    if (has(name)) out = value;
  }
  void read_whole_list(std::string_view name, std::vector<std::uint64_t> &out, const core::WholeRange &range,
                       std::size_t count_max, Presence presence);
  void read_numbers(std::string_view name, std::vector<double> &out, std::size_t count_max,
                    Presence presence);
  void read_texts(std::string_view name, std::vector<std::string> &out, const TextRule &rule,
                  std::size_t count_max, Presence presence);
  /// The elements of a list with their paths; empty where there is none to read.
  std::vector<std::pair<const nlohmann::json *, std::string>> elements(std::string_view name,
                                                                       std::size_t count_max,
                                                                       Presence presence);

  template <typename T, std::size_t N>
  void read_choice(std::string_view name, T &out, const Choices<T, N> &choices, Presence presence) {
    const nlohmann::json *value = find(name, presence);
    if (value == nullptr) return;
    std::string right;
    for (const auto &[text, choice] : choices) {
      if (*value == text) {
        out = choice;
        return;
      }
      right += (right.empty() ? "" : ", ") + std::string(text);
    }
    refuse_choice(name, *value, right);
  }

  /// Call last: what was never asked for is unknown.
  void finish();

  FaultList &faults() { return faults_; }
  UnknownFields unknown() const { return unknown_; }

 private:
  std::optional<std::uint64_t> whole(const nlohmann::json &value, const std::string &path,
                                     const core::WholeRange &range);
  std::optional<double> number(const nlohmann::json &value, const std::string &path);
  std::optional<std::string> text(const nlohmann::json &value, const std::string &path, const TextRule &rule);
  void refuse_choice(std::string_view name, const nlohmann::json &value, const std::string &right);

  const nlohmann::json *value_;  // null: nothing to read
  std::string path_;
  FaultList &faults_;
  UnknownFields unknown_;
  std::vector<std::string> known_;
};

}  // namespace parsyn::wire
