// Whether a job can be taken: its configuration against what is registered and who is live. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parsyn/coordinator.hpp"

namespace parsyn::coordinator {

struct Registered {
  std::function<const DatasetInfo *(Id)> dataset;
  std::function<const ModelInfo *(Id)> model;
  std::function<const WorkerInfo *(Id)> worker;
};

/// All faults that check_job_config does not see: unknown ids, kinds that differ, data and model that do not
/// fit, what the model or a selected, live worker cannot do. But those that compare a field of `unread`,
/// where `config` has a default that nobody chose.
std::vector<Fault> check_against_registry(const JobConfig &config, const Registered &registered,
                                          const std::vector<std::string> &unread = {});

}  // namespace parsyn::coordinator
