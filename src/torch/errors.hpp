// What libtorch throws, as parsyn::Error.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "parsyn/error.hpp"

namespace parsyn::torch {

/// The sentence of an exception of libtorch, without backtrace and without the listing of the module's
/// source.
std::string sentence_of(const std::exception &error);

/// Throws Error(code, "<task>: <sentence>"), or Error(unavailable) when the device has no memory left.
[[noreturn]] void throw_clear_error(ErrorCode code, std::string_view task, const std::exception &error);

/// Runs `compute`; `task` says in an error what was being done: "Training with the scripted module failed".
template <typename Compute>
auto with_clear_errors(ErrorCode code, std::string_view task, Compute &&compute) {
  try {
    return compute();
  } catch (const Error &) {
    throw;
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const std::exception &error) {
    throw_clear_error(code, task, error);
  }
}

}  // namespace parsyn::torch
