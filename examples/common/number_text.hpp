// Numbers as the programs' options take them: plain decimals.
//
// CLI11 reads numbers with strtoull and strtold, to which 010 is eight, -1 the greatest of all, and "nan" a
// number of seconds. So an option's text is looked at first; what is wrong with it is a sentence, and an
// empty one says nothing is.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace parsyn::programs {

/// Digits only, without sign, space or a zero before them.
std::string whole_number_fault(std::string_view text, std::uint64_t min, std::uint64_t max);
/// Digits with or without a point and an exponent: 2, 0.5, 1e-3.
std::string decimal_number_fault(std::string_view text, double min, double max);
/// The shortest decimals that are this number: "5", "0.5".
std::string decimal_text(double value);
/// A whole number, and after it letters or nothing: 800MB, 50 GiB. Which units there are is not looked at.
std::string size_fault(std::string_view text);
/// A whole number, or "best".
std::string round_choice_fault(std::string_view text);
/// ID, ID:ROUND or ID:best.
std::string job_and_round_fault(std::string_view text);

}  // namespace parsyn::programs
