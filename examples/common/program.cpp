#include "common/program.hpp"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/line_writer.hpp"
#include "common/plain_text.hpp"

namespace parsyn::programs {
namespace {

/// What went wrong without its faults, which follow on lines of their own.
std::string headline(const Error &error) {
  if (error.faults().empty()) return error.message();
  return error.message().substr(0, error.message().find(": " + error.faults().front().message)) + ":";
}

std::string error_as_json(const Error &error) {
  nlohmann::ordered_json faults = nlohmann::ordered_json::array();
  for (const Fault &fault : error.faults()) {
    faults.push_back({{"field", fault.field}, {"code", fault.code}, {"message", fault.message}});
  }
  const nlohmann::ordered_json document{
      {"error", {{"code", error_code_name(error.code())}, {"message", error.message()}, {"faults", faults}}}};
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string message_line(const std::string &name, const std::string &text) {
  return name + ": " + plain_text(text) + "\n";
}

std::string error_as_text(const std::string &name, const Error &error) {
  std::string text = message_line(name, headline(error));
  for (const Fault &fault : error.faults()) {
    const bool names_field = fault.field.empty() || fault.message.starts_with(fault.field);
    text += "  " + (names_field ? "" : plain_text(fault.field) + ": ") + plain_text(fault.message) + "\n";
  }
  return text;
}

/// The program ends then, which waits for its lines.
void print_error(const ProgramOptions &options, const Error &error) {
  stderr_lines().write(options.json_errors ? error_as_json(error) : error_as_text(options.name, error));
}

}  // namespace

void print_message(const std::string &name, const std::string &text) {
  stderr_lines().write(message_line(name, text));
  // What is written to stdout next comes after it on a terminal, too.
  stderr_lines().drain();
}

void write_output(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::io, "cannot write to standard output: " + std::system_category().message(errno));
  }
}

int run_program(const ProgramOptions &options, const std::function<int()> &body) {
  try {
    return body();
  } catch (const WrongUsage &error) {
    print_error(options, error);
    return kWrongUsage;
  } catch (const Error &error) {
    print_error(options, error);
  } catch (const std::bad_alloc &) {
    print_error(options, Error(ErrorCode::too_large, "there is not enough memory"));
  } catch (const std::exception &error) {
    print_error(options, Error(ErrorCode::internal, std::string("unexpected: ") + error.what()));
  }
  return kFailed;
}

}  // namespace parsyn::programs
