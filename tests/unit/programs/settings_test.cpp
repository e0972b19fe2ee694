// Where a program's settings come from, and in which order.
#include "common/settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace {

using parsyn::programs::Settings;
using parsyn::test::TemporaryFolder;

constexpr char kVariable[] = "PARSYN_TEST_PLACE";

/// A variable of the environment as long as it lives.
class Variable {
 public:
  Variable(const char *name, const char *value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

 private:
  const char *name_;
};

/// What is written to the standard error while it lives.
class StderrTo {
 public:
  explicit StderrTo(std::filesystem::path file) : file_(std::move(file)), former_(::dup(STDERR_FILENO)) {
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    ::dup2(descriptor, STDERR_FILENO);
    ::close(descriptor);
  }
  ~StderrTo() {
    ::dup2(former_, STDERR_FILENO);
    ::close(former_);
  }
  StderrTo(const StderrTo &) = delete;
  StderrTo &operator=(const StderrTo &) = delete;
  std::string text() const { return parsyn::system::read_text_file(file_, 1 << 20); }

 private:
  std::filesystem::path file_;
  int former_;
};

struct Values {
  std::string place = "the default";
  std::filesystem::path folder;
  std::vector<std::string> data;
  bool open = false;
  unsigned count = 1;
  std::uint64_t id = 7;
  double seconds = 1;
  parsyn::programs::LogOptions log;
  std::optional<int> exit_code;
};

Values read(const std::vector<std::string> &arguments, bool place_is_required = false) {
  Values values;
  Settings settings("program", "does something");
  CLI::App &app = settings.app();
  CLI::Option *place = settings.from_environment(app.add_option("--place", values.place, "where"), kVariable);
  if (place_is_required) settings.required(place);
  app.add_option("--folder", values.folder, "which folder");
  app.add_option("--data", values.data, "several")->allow_extra_args(false);
  settings.from_environment(app.add_flag("--open", values.open, "whether"), "PARSYN_TEST_OPEN");
  settings.from_environment(
      app.add_option("--count", values.count, "how many")->check(parsyn::programs::whole_number(1, 9)),
      "PARSYN_TEST_COUNT");
  app.add_option("ID", values.id, "whose")->check(parsyn::programs::whole_number());
  app.add_option("--seconds", values.seconds, "how long")->check(parsyn::programs::decimal_number(0, 86'400));
  settings.add_log_options(values.log);
  std::vector<const char *> argv{"program"};
  for (const std::string &argument : arguments) argv.push_back(argument.c_str());
  values.exit_code = settings.parse(static_cast<int>(argv.size()), argv.data());
  return values;
}

/// What is written of arguments that are refused; --place is required.
std::string told(const std::vector<std::string> &arguments) {
  const TemporaryFolder folder;
  const StderrTo errors(folder.file("stderr", ""));
  CHECK(read(arguments, true).exit_code == 2);
  return errors.text();
}

}  // namespace

TEST_CASE("flags win over the environment, the environment over the file, the file over the default") {
  const TemporaryFolder folder;
  const std::string file = folder.file("settings", "place = from the file\n").string();

  CHECK(read({}).place == "the default");
  CHECK(read({"--config", file}).place == "from the file");
  {
    const Variable variable(kVariable, "from the environment");
    CHECK(read({}).place == "from the environment");
    CHECK(read({"--config", file}).place == "from the environment");
    CHECK(read({"--config", file, "--place", "from the flag"}).place == "from the flag");
  }
  CHECK(read({"--config", file, "--place", "from the flag"}).place == "from the flag");
  const Variable empty(kVariable, "");
  CHECK(read({"--config", file}).place == "from the file");
}

TEST_CASE("a required setting may come from any place") {
  const TemporaryFolder folder;
  CHECK(read({}, true).exit_code == 2);
  CHECK_FALSE(read({"--place", "x"}, true).exit_code);
  CHECK_FALSE(read({"--config", folder.file("settings", "place=x").string()}, true).exit_code);
  const Variable variable(kVariable, "x");
  CHECK_FALSE(read({}, true).exit_code);
}

TEST_CASE("a switch is true or false in the environment and in a file") {
  const TemporaryFolder folder;
  CHECK(read({"--open"}).open);
  CHECK(read({"--config", folder.file("on", "open = yes\n").string()}).open);
  CHECK_FALSE(read({"--config", folder.file("off", "open = false\n").string()}).open);
  CHECK(read({"--config", folder.file("odd", "open = perhaps\n").string()}).exit_code == 2);
  const Variable variable("PARSYN_TEST_OPEN", "0");
  CHECK_FALSE(read({}).open);
}

TEST_CASE("what comes first decides about a switch, whether it is on or off") {
  const TemporaryFolder folder;
  const auto file_with = [&](const std::string &value) {
    return folder.file("settings", "open = " + value + "\n").string();
  };
  for (const std::string flag : {"", "--open", "--open=true", "--open=false"}) {
    for (const std::string variable : {"", "true", "false"}) {
      for (const std::string line : {"", "true", "false"}) {
        INFO("flag '" << flag << "', environment '" << variable << "', file '" << line << "'");
        const Variable set("PARSYN_TEST_OPEN", variable.c_str());
        std::vector<std::string> arguments;
        if (!flag.empty()) arguments.push_back(flag);
        if (!line.empty()) arguments.insert(arguments.end(), {"--config", file_with(line)});
        const std::string decides = !flag.empty() ? flag : !variable.empty() ? variable : line;
        const Values values = read(arguments);
        CHECK_FALSE(values.exit_code);
        CHECK(values.open == (decides == "--open" || decides == "--open=true" || decides == "true"));
      }
    }
  }
}

TEST_CASE("a value from the environment or a file is checked like a flag's") {
  const TemporaryFolder folder;
  CHECK(read({"--count", "10"}).exit_code == 2);
  CHECK(read({"--count", "many"}).exit_code == 2);
  CHECK(read({"--config", folder.file("settings", "count = 10\n").string()}).exit_code == 2);
  CHECK(read({"--config", folder.file("fine", "count = 9\n").string()}).count == 9);
  const Variable variable("PARSYN_TEST_COUNT", "many");
  CHECK(read({}).exit_code == 2);
}

TEST_CASE("unknown flags, unknown names in a file and a file that is not there are wrong usage") {
  const TemporaryFolder folder;
  CHECK(read({"--plaec", "x"}).exit_code == 2);
  CHECK(read({"--config", folder.file("settings", "plaec = x\n").string()}).exit_code == 2);
  CHECK(read({"--config", folder.file("twice", "place = x\nplace = y\n").string()}).exit_code == 2);
  CHECK(read({"--config", folder.file("config", "config = x\n").string()}).exit_code == 2);
  CHECK(read({"--config", (folder.path() / "nowhere").string()}).exit_code == 2);
}

TEST_CASE("values keep their spaces, and lists their entries") {
  const TemporaryFolder folder;
  CHECK(read({"--folder", "/a folder/with spaces"}).folder == "/a folder/with spaces");
  CHECK(read({"--data", "a=b=c", "--data", "d=/e f"}).data == std::vector<std::string>{"a=b=c", "d=/e f"});
  const auto file =
      folder.file("settings", "# two of them\ndata = a=b\n\ndata = \" c \"\nfolder = /x y\n").string();
  const Values values = read({"--config", file});
  CHECK(values.data == std::vector<std::string>{"a=b", " c "});
  CHECK(values.folder == "/x y");
}

TEST_CASE("a comment follows white space, unless a quoted value has it in it") {
  const TemporaryFolder folder;
  const auto place = [&](const std::string &value) {
    const Values values = read({"--config", folder.file("settings", "place = " + value + "\n").string()});
    return values.exit_code ? "exit code " + std::to_string(*values.exit_code) : values.place;
  };
  CHECK(place("/a b # a comment") == "/a b");
  CHECK(place("/a\t#comment # more") == "/a");
  CHECK(place("/a#b") == "/a#b");
  CHECK(place("/a#b #c") == "/a#b");
  CHECK(place("# nothing") == "");
  CHECK(place("\" /a # b \"  # a comment") == " /a # b ");
  CHECK(place("\"\"") == "");
  CHECK(place("it \"is\" so") == "it \"is\" so");
  CHECK(place("\"/a # b") == "exit code 2");
  CHECK(place("\"/a\" b") == "exit code 2");
}

TEST_CASE("all faults of the settings are told, each once") {
  const TemporaryFolder folder;
  const auto file = folder.file("settings", "seconds = soon\nplaec = x\n").string();
  const Variable variable("PARSYN_TEST_OPEN", "perhaps");
  const std::string all = told({"--count", "0x1", "--config", file, "--odd", "--", "01"});
  for (const char *fault : {"--count: '0x1'", "ID: '01'", "expected: --odd\n",
                            "PARSYN_TEST_OPEN: --open must be", "settings: --seconds: 'soon'",
                            "line 2: there is no setting named plaec", "--place is missing", "--help"}) {
    CAPTURE(all, fault);
    CHECK(all.find(fault) != std::string::npos);
  }
  CHECK(std::count(all.begin(), all.end(), '\n') == 8);
  CHECK(told({"--place="}).find("is missing") == std::string::npos);
}

TEST_CASE("a flag without its value does not take the next flag for it") {
  const std::string help = "program: run it with --help for what it takes\n";
  CHECK(told({"--log-level", "--place", "x"}) == "program: --log-level: its value is missing\n" + help);
  CHECK(told({"--log-level", "--place=x"}) == "program: --log-level: its value is missing\n" + help);
  CHECK(told({"--place", "--open"}) == "program: --place: its value is missing\n" + help);
  CHECK(read({"--place=--open"}).place == "--open");
  CHECK(read({"--place", "--unknown"}).place == "--unknown");
  CHECK_FALSE(read({"--place", "x", "--open", "--count", "3"}).exit_code);
}

TEST_CASE("a switch has four words for on and four for off, wherever it comes from") {
  const TemporaryFolder folder;
  for (const std::string on : {"true", "yes", "on", "1"}) {
    CAPTURE(on);
    CHECK(read({"--open=" + on}).open);
    CHECK(read({"--config", folder.file("on", "open = " + on + " # so\n").string()}).open);
    const Variable variable("PARSYN_TEST_OPEN", on.c_str());
    CHECK(read({}).open);
  }
  for (const std::string off : {"false", "no", "off", "0"}) {
    CAPTURE(off);
    CHECK_FALSE(read({"--open=" + off}).open);
    const Variable variable("PARSYN_TEST_OPEN", "on");
    CHECK_FALSE(read({"--open=" + off}).open);
    CHECK(read({"--config", folder.file("off", "open = " + off + "\n").string()}).open);
  }
}

TEST_CASE("log settings are read by name") {
  const Values values = read({"--log-format", "json", "--log-level", "warning"});
  CHECK(values.log.format == parsyn::programs::LogFormat::json);
  CHECK(values.log.level_min == parsyn::LogLevel::warning);
  CHECK(read({"--log-format", "xml"}).exit_code == 2);
}

TEST_CASE("whole numbers are plain digits, without a sign, a base, a space or an overflow") {
  CHECK(read({"18446744073709551615"}).id == UINT64_MAX);
  CHECK(read({"0"}).id == 0);
  for (const std::string wrong : {"-18446744073709551615", "-1", "010", "00", "0x1", "0b1", "+1", " 1", "1 ",
                                  "1.0", "1e1", "", "18446744073709551616", "1'000", "1_0"}) {
    CAPTURE(wrong);
    CHECK(read({"--", wrong}).exit_code == 2);
    CHECK(read({"--count=" + wrong}).exit_code == 2);
  }
}

TEST_CASE("a refused number is named, with its flag") {
  using parsyn::programs::whole_number_fault;
  CHECK(whole_number_fault("010", 1, 9) == "'010' is not a whole number from 1 to 9 in plain digits");
  const TemporaryFolder folder;
  const auto file = folder.file("settings", "count = 0x1\n").string();
  CHECK(read({"--config", file}).exit_code == 2);
}

TEST_CASE("numbers of seconds are plain decimals") {
  CHECK(read({"--seconds", "0.25"}).seconds == 0.25);
  CHECK(read({"--seconds", "1e-3"}).seconds == 1e-3);
  CHECK(read({"--seconds", "10"}).seconds == 10);
  for (const std::string wrong : {"nan", "NaN", "inf", "-inf", "infinity", "0x1p3", "0x10", "+1", "-1", " 1",
                                  "1s", "", "1e999", "86401", "nan(1)"}) {
    CAPTURE(wrong);
    CHECK(read({"--seconds=" + wrong}).exit_code == 2);
  }
  CHECK(parsyn::programs::decimal_number_fault("nan", 0.01, 86'400) ==
        "'nan' is not a plain decimal number from 0.01 to 86400");
}

TEST_CASE("sizes and rounds are whole numbers, too") {
  using namespace parsyn::programs;
  for (const std::string right : {"0", "800MB", "50 GiB", "1b"}) CHECK(size_fault(right).empty());
  for (const std::string wrong : {"", "-1", "010MB", "0x10", "18446744073709551616", "1.5GB", "MB", "1 M B"})
    CHECK_FALSE(size_fault(wrong).empty());
  for (const std::string right : {"0", "12", "best"}) CHECK(round_choice_fault(right).empty());
  for (const std::string wrong : {"", "-1", "01", "last", "+1"})
    CHECK_FALSE(round_choice_fault(wrong).empty());
  for (const std::string right : {"1", "1:0", "1:best"}) CHECK(job_and_round_fault(right).empty());
  for (const std::string wrong : {"", "01", "1:", ":1", "1:+1", "0x1"})
    CHECK_FALSE(job_and_round_fault(wrong).empty());
}

TEST_CASE("a required value that is empty, and one with a NUL byte, are refused") {
  CHECK(read({"--place", ""}, true).exit_code == 2);
  CHECK(read({"--place="}, true).exit_code == 2);
  const TemporaryFolder folder;
  CHECK(read({"--config", folder.file("empty", "place =\n").string()}, true).exit_code == 2);
  const std::string text("place = a\0b\n", 12);
  CHECK(read({"--config", folder.file("nul", text).string()}).exit_code == 2);
}
