// What check_job_config finds, with the fields that each finding compares.
//
// Thread-safety: free function without state.
#pragma once

#include <string_view>
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

}  // namespace parsyn::core
