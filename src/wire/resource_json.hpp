// What the REST API answers with: one JSON text for each resource (docs/openapi.json has their schemas).
//
// Never throws for what the values hold: a number that is not finite becomes "NaN", "Infinity" or
// "-Infinity", bytes that are not UTF-8 become U+FFFD. An absent value is written as null, so every field is
// always there.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsyn/coordinator.hpp"

namespace parsyn::wire {

std::string worker_json(const WorkerInfo &worker);
/// The worker's fields, and "token".
std::string credentials_json(const WorkerCredentials &credentials);
std::string dataset_json(const DatasetInfo &dataset);
std::string model_json(const ModelInfo &model);
/// The fields of the request (job_config_json) and those of the status, side by side.
std::string job_json(const JobStatus &job);
/// job_json without "rounds" and "workers": an entry of a list.
std::string job_summary_json(const JobStatus &job);
/// {"sequence", "job_id", "time_ms", "type", "text", "data": {...}}
std::string event_json(const Event &event);
/// {"items": [{"worker_id", "round", "steps": [...], "losses": [...]}], "next": "ROUND-WORKER" or null}: two
/// columns of one length for each series; `next` is the `after` of the next page.
std::string losses_json(std::span<const LossSeries> series, const std::optional<LossPlace> &next = {});
/// The inverse of that `next`; nothing for another text.
std::optional<LossPlace> parse_loss_place(std::string_view text);
std::string object_json(const ObjectInfo &object);
/// {"items": [...], "next": N or null}. `items` are JSON texts; `next` is the `after` of the next page.
std::string list_json(const std::vector<std::string> &items, std::optional<std::uint64_t> next);

}  // namespace parsyn::wire
