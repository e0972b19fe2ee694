// Where a program's settings come from, and in which order.
#include "common/settings.hpp"

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

struct Values {
  std::string place = "the default";
  std::filesystem::path folder;
  std::vector<std::string> data;
  bool open = false;
  unsigned count = 1;
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
  settings.from_environment(app.add_option("--count", values.count, "how many")->check(CLI::Range(1U, 9U)),
                            "PARSYN_TEST_COUNT");
  settings.add_log_options(values.log);
  std::vector<const char *> argv{"program"};
  for (const std::string &argument : arguments) argv.push_back(argument.c_str());
  values.exit_code = settings.parse(static_cast<int>(argv.size()), argv.data());
  return values;
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

TEST_CASE("log settings are read by name") {
  const Values values = read({"--log-format", "json", "--log-level", "warning"});
  CHECK(values.log.format == parsyn::programs::LogFormat::json);
  CHECK(values.log.level_min == parsyn::LogLevel::warning);
  CHECK(read({"--log-format", "xml"}).exit_code == 2);
}
