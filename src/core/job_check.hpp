// What check_job_config finds, with the fields that each finding compares.
//
// Thread-safety: free function without state.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "parsyn/job_config.hpp"

namespace parsyn::core {

struct JobFinding {
  Fault fault;
  /// The fields that contradict each other; empty: fault.field alone. Where one of them could not be read
  /// from a document, the finding is about a default that nobody chose, and is dropped.
  std::vector<std::string_view> compared;
};

std::vector<JobFinding> examine_job_config(const JobConfig &config);

/// Whether one of two fields is the other or a part of it: "a" of "a", "a.b" and "a[1]"; "" of every field.
inline bool overlap(std::string_view one, std::string_view other) {
  const auto [inner, outer] = one.size() < other.size() ? std::pair(other, one) : std::pair(one, other);
  if (outer.empty()) return true;
  const bool ends_there =
      inner.size() == outer.size() || inner[outer.size()] == '.' || inner[outer.size()] == '[';
  return ends_there && inner.starts_with(outer);
}

}  // namespace parsyn::core
