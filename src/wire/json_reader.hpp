// Internal to this layer: JSON text that a peer sent, read strictly and with bounds.
//
// nlohmann's own parse() keeps the last of two equal keys and turns 2^64 into a double, both in silence; so
// the value is built here from its SAX events, with a fault for each. Nothing recurses, and the depth limit
// bounds what later walks or destroys the value.
//
// Thread-safety: free functions without state; a FaultList has one user.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::wire {

/// Faults beyond it are counted, not listed: an answer must not be much longer than its question.
inline constexpr std::size_t kFaultsMax = 100;

/// Collects faults; a field keeps its first one only.
class FaultList {
 public:
  void add(std::string field, std::string code, std::string message);

  bool empty() const { return faults_.empty(); }
  /// Whether `field`, a part of it, or something that it is a part of has a fault.
  bool touches(std::string_view field) const;
  std::vector<std::string> fields() const;
  /// All of them, with one more at the end that tells how many were left out.
  std::vector<Fault> take();

 private:
  std::vector<Fault> faults_;
  std::size_t left_out_ = 0;
};

/// The value of all of `text`; nothing, with a fault, when it is not JSON, too deep or too long. Duplicate
/// keys and numbers that do not fit are faults too, at their fields, and reading goes on where it can.
std::optional<nlohmann::json> read_json(std::string_view text, FaultList &faults,
                                        std::size_t bytes_max = limits::kHttpJsonBytesMax);

/// "config.epochs" of "config" and "epochs"; long or unprintable names are shortened, for messages.
std::string field_path(std::string_view parent, std::string_view name);
std::string index_path(std::string_view parent, std::size_t index);

}  // namespace parsyn::wire
