// Values of the REST documents as text for people.
//
// Thread-safety: free functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace parsyn::programs {

using Json = nlohmann::ordered_json;

/// The value at a dotted path ("final_validation.loss", "rounds.0.train_loss"); null when it is not there.
Json value_at(const Json &document, std::string_view path);

/// Text without what could disturb a terminal; anything else as JSON; "-" for null.
std::string text_at(const Json &document, std::string_view path);
/// A number with this many decimals; "NaN" and its like as they are; "-" for null.
std::string number_at(const Json &document, std::string_view path, int decimals);
/// 0 when it is not there.
std::uint64_t whole_at(const Json &document, std::string_view path);
bool true_at(const Json &document, std::string_view path);

/// From 1e13 on with an exponent.
std::string fixed(double value, int decimals);

/// JSON on one line.
std::string json_line(const Json &document);

}  // namespace parsyn::programs
