// Internal to this layer: a job's configuration as fields of a JSON object.
//
// Thread-safety: free function without state.
#pragma once

#include "parsyn/job_config.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {

/// All fields of the request, in the order of its documentation.
OrderedJson job_config_value(const JobConfig &config);

}  // namespace parsyn::wire
