// Numbers in text, read the same in every locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace parsyn::data {

enum class NumberFault { none, missing, not_a_number, not_finite, out_of_range };

struct ParsedNumber {
  NumberFault fault = NumberFault::none;
  bool is_integer = false;   ///< Digits only, with or without a sign.
  float value = 0;           ///< Rounded once, from double.
  std::int64_t integer = 0;  ///< Where is_integer.
};

/// Decimal text as C++'s from_chars takes it, with spaces around it and a plus sign before it allowed. A
/// whole number beyond 64 bits is out of range, and so is what F32 cannot hold.
ParsedNumber parse_number(std::string_view text);

/// "is missing", "is not a number", ...
std::string_view fault_text(NumberFault fault);

}  // namespace parsyn::data
