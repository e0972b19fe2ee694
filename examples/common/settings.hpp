// The settings of a program: flags, the environment, a file, defaults - in this order, the first that says
// something wins.
//
// CLI11 reads the flags and writes the help. It has an environment and a configuration file of its own, but
// lets the file win over the environment; so both are read here, after the flags, into options that have no
// value yet.
//
// Include it in one .cpp file per program: CLI11 is slow to compile.
//
// Thread-safety: of one thread.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/log_lines.hpp"
#include "common/number_text.hpp"
#include "common/program.hpp"
#include "common/settings_file.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"

namespace parsyn::programs {

/// For CLI::Option::check(): plain digits, as number_text.hpp says.
inline CLI::Validator whole_number(std::uint64_t min = 0, std::uint64_t max = UINT64_MAX) {
  const bool shown = max != UINT64_MAX;
  return {[=](const std::string &text) { return whole_number_fault(text, min, max); },
          shown ? std::to_string(min) + " to " + std::to_string(max) : ""};
}

/// As whole_number(), with a point and an exponent or without.
inline CLI::Validator decimal_number(double min, double max) {
  return {[=](const std::string &text) { return decimal_number_fault(text, min, max); }, ""};
}

/// For a name that, when it is empty, would be taken for none.
inline CLI::Validator not_empty() {
  return {[](const std::string &text) { return std::string(text.empty() ? "its value is empty" : ""); }, ""};
}

/// For a file that is read later on: it can be named, before anything is made, when it cannot be read.
inline CLI::Validator readable_file() {
  return {[](const std::string &text) {
            if (text.empty() || ::access(text.c_str(), R_OK) == 0) return std::string();
            return text + " cannot be read: " + std::system_category().message(errno);
          },
          ""};
}

class Settings {
 public:
  Settings(const std::string &program, const std::string &purpose)
      : program_(program), app_(purpose, program) {
    app_.set_version_flag("--version", program + " " PARSYN_VERSION, "Print the version and exit");
    app_.get_formatter()->column_width(42);
    app_.add_option("--config", file_, "A file with one NAME = VALUE a line: the flags' names without dashes")
        ->type_name("FILE");
    app_.footer(
        "\nSettings: flags first, then the environment variables in brackets, then the file of --config, "
        "then "
        "the defaults. docs/settings.md has them all.\n"
        "Exit codes: 0 it worked, 1 it failed, 2 wrong usage.");
  }

  CLI::App &app() { return app_; }

  /// The option's value may also come from this variable; an empty one counts as absent.
  CLI::Option *from_environment(CLI::Option *option, const std::string &variable) {
    option->description(option->get_description() + " [" + variable + "]");
    variables_.emplace_back(option, variable);
    return option;
  }

  /// It must come from somewhere. CLI11's own required() knows of flags only.
  CLI::Option *required(CLI::Option *option) {
    option->description(option->get_description() + " (required)");
    required_.push_back(option);
    return option->check(not_empty());
  }

  /// `log` is set by parse().
  void add_log_options(LogOptions &log) {
    log_ = &log;
    from_environment(
        app_.add_option("--log-format", log_format_, "How log lines are written to stderr: text or json")
            ->check(CLI::IsMember({"text", "json"}))
            ->type_name("FORMAT")
            ->capture_default_str(),
        "PARSYN_LOG_FORMAT");
    from_environment(
        app_.add_option("--log-level", log_level_, "The least that is written: debug, info, warning or error")
            ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
            ->type_name("LEVEL")
            ->capture_default_str(),
        "PARSYN_LOG_LEVEL");
  }

  /// Of options that do not go together, or that only more than one of them can tell the fault of: looked at
  /// after all places were read, unless one of `about` has a fault already. Each sentence names its flags.
  void rule(std::vector<const CLI::Option *> about, std::function<std::vector<std::string>()> faults) {
    rules_.push_back({std::move(about), std::move(faults)});
  }

  /// Nothing: go on with the values. Else help or all faults were printed, and this is the program's exit
  /// code.
  std::optional<int> parse(int argc, const char *const *argv) {
    const std::vector<const char *> arguments = with_values(argc, argv);
    try {
      app_.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const CLI::Success &asked) {
      return app_.exit(asked);  // help or the version, on stdout
    } catch (const CLI::ParseError &error) {
      // CLI11 ends with the first fault. Those of values are found again, with all others.
      look_at_values(app_);
      add_fault(error.what());
      std::vector<std::string> unknown = app_.remaining(true);
      // Not an argument: what follows it are no flags.
      unknown.erase(std::remove(unknown.begin(), unknown.end(), "--"), unknown.end());
      if (!unknown.empty() && dynamic_cast<const CLI::ExtrasError *>(&error) == nullptr)
        add_fault(CLI::ExtrasError(unknown).what());
    }
    apply_environment();
    apply_file();
    for (const CLI::Option *option : required_) {
      // A flag without its value has no count, but a fault.
      const auto is_told = [&](const std::string &fault) {
        return fault.starts_with(option->get_name() + ":");
      };
      if (option->count() == 0 && std::none_of(faults_.begin(), faults_.end(), is_told))
        add_fault(option->get_name() + " is missing" + variable_of(option));
    }
    for (const Rule &rule : rules_) {
      const auto has_fault = [&](const CLI::Option *option) { return faulty_.contains(option); };
      if (std::any_of(rule.about.begin(), rule.about.end(), has_fault)) continue;
      for (const std::string &fault : rule.faults()) add_fault(fault);
    }
    if (log_ != nullptr) set_log();
    if (faults_.empty()) return std::nullopt;
    for (const std::string &fault : faults_) print_message(program_, fault);
    print_message(program_, "run it with --help for what it takes");
    return kWrongUsage;
  }

 private:
  struct Rule {
    std::vector<const CLI::Option *> about;
    std::function<std::vector<std::string>()> faults;
  };

  /// The arguments without the flags that lack their value. CLI11 would take the next flag for it, and the
  /// next flag's faults would hide what is wrong.
  std::vector<const char *> with_values(int argc, const char *const *argv) {
    std::vector<const char *> kept;
    int at = 0;
    for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
      const CLI::Option *option = find_option(app_, argv[at]);
      const bool takes_value = option != nullptr && option->get_items_expected_min() > 0;
      if (takes_value && at + 1 < argc && is_flag(argv[at + 1]))
        add_fault(std::string(argv[at]) + ": its value is missing");
      else
        kept.push_back(argv[at]);
    }
    kept.insert(kept.end(), argv + at, argv + argc);  // what follows "--" are no flags
    return kept;
  }

  /// With its value behind a = or without.
  bool is_flag(std::string_view argument) const {
    return find_option(app_, argument.substr(0, argument.find('='))) != nullptr;
  }

  /// By its long name: the program's, or one of its commands', which take a value everywhere or nowhere.
  static const CLI::Option *find_option(const CLI::App &app, std::string_view flag) {
    if (!flag.starts_with("--")) return nullptr;
    if (const CLI::Option *option = app.get_option_no_throw(std::string(flag))) return option;
    for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
      if (const CLI::Option *option = find_option(*command, flag)) return option;
    }
    return nullptr;
  }

  void add_fault(const std::string &fault) {
    if (std::find(faults_.begin(), faults_.end(), fault) == faults_.end()) faults_.push_back(fault);
  }

  /// Of this command's options and those of the commands that were called.
  void look_at_values(CLI::App &app) {
    for (CLI::Option *option : app.get_options()) {
      if (option->count() == 0) continue;
      try {
        option->run_callback();
      } catch (const CLI::Success &) {
      } catch (const CLI::ParseError &error) {
        add_fault(error.what());
        faulty_.insert(option);
      }
    }
    for (CLI::App *command : app.get_subcommands()) look_at_values(*command);
  }

  std::string variable_of(const CLI::Option *option) const {
    for (const auto &[known, variable] : variables_) {
      if (known == option) return " (or set " + variable + ")";
    }
    return {};
  }

  void apply_environment() {
    for (const auto &[option, variable] : variables_) {
      const char *value = std::getenv(variable.c_str());
      if (value != nullptr && *value != '\0' && option->count() == 0)
        give(option, {value}, "the environment variable " + variable);
    }
  }

  void apply_file() {
    if (file_.empty()) return;
    constexpr std::uint64_t kFileBytesMax = 1 << 20;
    std::vector<FileSetting> settings;
    try {
      const std::string text = system::read_text_file(file_, kFileBytesMax);
      try {
        settings = parse_settings_file(text);
      } catch (const Error &error) {
        return add_fault(file_ + ", " + error.message());
      }
    } catch (const Error &error) {
      return add_fault(error.message());
    }
    std::vector<std::pair<CLI::Option *, std::vector<std::string>>> values;
    for (const FileSetting &setting : settings) {
      const std::string where = file_ + ", line " + std::to_string(setting.line);
      CLI::Option *option = app_.get_option_no_throw("--" + setting.name);
      if (option == nullptr || setting.name == "config" || setting.name == "help" ||
          setting.name == "version") {
        add_fault(where + ": there is no setting named " + setting.name);
        continue;
      }
      if (setting.value.find('\0') != std::string::npos) {
        faulty_.insert(option);
        add_fault(where + ": the value of " + option->get_name() + " has a NUL byte in it");
        continue;
      }
      const auto known = std::find_if(values.begin(), values.end(),
                                      [&](const auto &entry) { return entry.first == option; });
      if (known == values.end()) {
        values.push_back({option, {setting.value}});
      } else if (option->get_items_expected_max() > 1) {
        known->second.push_back(setting.value);
      } else {
        add_fault(where + ": " + setting.name + " is set twice");
      }
    }
    for (const auto &[option, given] : values) {
      if (option->count() == 0) give(option, given, file_);
    }
  }

  void give(CLI::Option *option, std::vector<std::string> values, const std::string &source) {
    try {
      if (option->get_items_expected_max() == 0) {
        const auto on = is_on(values.front());
        if (!on)
          throw Error(ErrorCode::invalid_argument, option->get_name() + " must be true or false, not '" +
                                                       values.front() +
                                                       "' (also yes or no, on or off, 1 or 0)");
        // One that is off has been decided, too: what comes later in the order does not turn it on.
        values = {*on ? "true" : "false"};
      }
      option->add_result(std::move(values));
      option->run_callback();
    } catch (const std::exception &error) {
      faulty_.insert(option);
      add_fault(source + ": " + error.what());
    }
  }

  static std::optional<bool> is_on(std::string_view value) {
    if (value == "true" || value == "1" || value == "yes" || value == "on") return true;
    if (value == "false" || value == "0" || value == "no" || value == "off") return false;
    return std::nullopt;
  }

  void set_log() const {
    log_->format = log_format_ == "json" ? LogFormat::json : LogFormat::text;
    for (const LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error}) {
      if (log_level_name(level) == log_level_) log_->level_min = level;
    }
  }

  std::string program_;
  CLI::App app_;
  LogOptions *log_ = nullptr;
  std::string log_format_ = "text";
  std::string log_level_ = "info";
  std::string file_;
  std::vector<std::pair<CLI::Option *, std::string>> variables_;
  std::vector<CLI::Option *> required_;
  std::vector<Rule> rules_;
  std::vector<std::string> faults_;
  std::set<const CLI::Option *> faulty_;
};

}  // namespace parsyn::programs
