// The outcome of reading a document that a person or a program wrote: a value, and everything that is wrong
// with it.
//
// Thread-safety: values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsyn/error.hpp"

namespace parsyn::wire {

/// `value` means something only where `faults` is empty.
template <typename T>
struct Parsed {
  T value;
  std::vector<Fault> faults;
  /// Fields that could not be read, or are not known: where `value` has one, it is a default that nobody
  /// chose.
  std::vector<std::string> unread{};
};

/// Error(invalid_argument) with these faults (at least one); its message names `what`, e.g. "training job",
/// and lists the first few faults in words.
Error refusal(std::string_view what, std::vector<Fault> faults);

/// The value, or refusal() thrown.
template <typename T>
T value_or_throw(Parsed<T> parsed, std::string_view what) {
  if (!parsed.faults.empty()) throw refusal(what, std::move(parsed.faults));
  return std::move(parsed.value);
}

}  // namespace parsyn::wire
