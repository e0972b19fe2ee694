// What the three programs share: how they end and what they say then.
//
// Exit codes: 0 it worked, 1 it failed (a sentence on stderr says why), 2 it was called wrongly.
//
// Thread-safety: free functions without state.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace parsyn::programs {

inline constexpr int kWorked = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

struct ProgramOptions {
  std::string name;          ///< "parsyn-worker": what each line on stderr starts with.
  bool json_errors = false;  ///< One JSON object a line instead of text.
};

/// Runs `body` and gives its exit code. An exception becomes one line on stderr, with one more for each
/// fault, and kFailed.
int run_program(const ProgramOptions &options, const std::function<int()> &body);

/// "NAME: TEXT" on stderr.
void print_message(const std::string &name, const std::string &text);

/// Writes to stdout at once. Throws Error(io) when nobody reads it any more: while a request runs its thread
/// gets no SIGPIPE.
void write_output(std::string_view text);

}  // namespace parsyn::programs
