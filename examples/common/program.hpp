// What the three programs share: how they end and what they say then.
//
// Exit codes: 0 it worked, 1 it failed (a sentence on stderr says why), 2 it was called wrongly.
//
// Thread-safety: free functions without state.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "parsyn/error.hpp"

namespace parsyn::programs {

inline constexpr int kWorked = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

struct ProgramOptions {
  std::string name;          ///< "parsyn-worker": what each line on stderr starts with.
  bool json_errors = false;  ///< One JSON object a line instead of text.
};

/// What a program was told cannot be done as it was told: which takes more than its options to know.
class WrongUsage : public Error {
 public:
  explicit WrongUsage(std::string message) : Error(ErrorCode::invalid_argument, std::move(message)) {}
};

/// Runs `body` and gives its exit code. An exception becomes one line on stderr, with one more for each
/// fault, and kFailed; of WrongUsage kWrongUsage.
int run_program(const ProgramOptions &options, const std::function<int()> &body);

/// "NAME: TEXT" on stderr. Returns when it is written, or when nobody has read it for a second.
void print_message(const std::string &name, const std::string &text);

/// Writes to stdout at once. Throws Error(io) when nobody reads it any more (ignore_broken_pipes()).
void write_output(std::string_view text);

}  // namespace parsyn::programs
