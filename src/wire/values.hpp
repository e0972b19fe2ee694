// Internal to this layer: the C++ values that several documents hold, as JSON, both ways.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/status.hpp"
#include "wire/object_reader.hpp"

namespace parsyn::wire {

using OrderedJson = nlohmann::ordered_json;

/// Compact text. Bytes that are not UTF-8 become U+FFFD: writing never throws for what a value holds.
std::string write_json(const OrderedJson &value);

/// A number with as many digits as bring the same double back; "NaN", "Infinity", "-Infinity" for those that
/// JSON has no number for.
OrderedJson number_value(double number);
OrderedJson number_value(const std::optional<double> &number);

template <typename T>
OrderedJson nullable(const std::optional<T> &value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}
/// What number_value() writes, read back; nothing for another value.
std::optional<double> number_of(const nlohmann::json &value);

/// null for an empty text.
OrderedJson text_or_null(const std::string &text);

OrderedJson training_config_value(const TrainingConfig &config);
void read_training_config(ObjectReader &reader, TrainingConfig &config);

OrderedJson evaluation_value(const std::optional<Evaluation> &evaluation);
void read_evaluation(ObjectReader &parent, std::string_view name, std::optional<Evaluation> &out);

OrderedJson capabilities_value(const TrainerCapabilities &capabilities);
OrderedJson local_datasets_value(const std::vector<LocalDataset> &datasets);

inline constexpr std::array<std::pair<std::string_view, WorkerKind>, 2> kWorkerKinds{
    {{"own", WorkerKind::own}, {"parsyn", WorkerKind::parsyn}}};

}  // namespace parsyn::wire
