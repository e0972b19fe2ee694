// The body of POST /api/v1/training-jobs, both ways (docs/jobs.md has every field).
//
// Reading is strict: fields that do not exist are refused by name, a key twice in one object is refused, and
// all faults are told at once. Codes of faults: "json" (not JSON, too deep, too long), "type", "range",
// "required", "unknown_field", "unknown_value", "duplicate_key", "format" (text that is empty, too long or
// has control characters), and from check_job_config "contradiction" (two fields that do not go together) and
// "duplicate_id".
//
// Whole numbers may be written 3, 3.0 or 3e0; text, booleans and null are no numbers. null is taken where a
// field may be absent on purpose: seed, distributed, config.early_stopping.
//
// Thread-safety: free functions without state.
#pragma once

#include <string>
#include <string_view>

#include "parsyn/job_config.hpp"
#include "wire/parsed.hpp"

namespace parsyn::wire {

/// Never throws for what `text` holds. Includes what check_job_config finds, without a second fault for a
/// field that could not be read.
Parsed<JobConfig> parse_job(std::string_view text);

/// The whole configuration, defaults included; parse_job gives the same value back.
std::string job_config_json(const JobConfig &config);

}  // namespace parsyn::wire
