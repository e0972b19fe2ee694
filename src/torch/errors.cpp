#include "torch/errors.hpp"

#include <c10/util/Exception.h>

namespace parsyn::torch {

namespace {

/// An exception in a scripted module is a listing of its source; what went wrong stands at the end, behind
/// this.
constexpr std::string_view kListingHead = "The following operation failed in the TorchScript interpreter";
constexpr std::string_view kListingError = "\nRuntimeError: ";

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string_view last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const auto line_break = text.rfind('\n');
  return line_break == std::string_view::npos ? text : text.substr(line_break + 1);
}

}  // namespace

std::string sentence_of(const std::exception &error) {
  const auto *torch_error = dynamic_cast<const c10::Error *>(&error);
  const std::string_view text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  if (!text.starts_with(kListingHead)) return std::string(first_line(text));
  const auto position = text.find(kListingError);
  if (position == std::string_view::npos) return std::string(last_line(text));
  return std::string(first_line(text.substr(position + kListingError.size())));
}

void throw_clear_error(ErrorCode code, std::string_view task, const std::exception &error) {
  const std::string sentence = sentence_of(error);
  const bool out_of_memory = dynamic_cast<const c10::OutOfMemoryError *>(&error) != nullptr ||
                             sentence.find("can't allocate memory") != std::string::npos;
  if (out_of_memory)
    throw Error(ErrorCode::unavailable, std::string(task) +
                                            ": the device has not enough memory. Use a smaller "
                                            "batch_size, or a worker with more memory. (" +
                                            sentence + ")");
  throw Error(code, std::string(task) + ": " + sentence);
}

}  // namespace parsyn::torch
