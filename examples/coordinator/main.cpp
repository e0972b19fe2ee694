// parsyn-coordinator: a Coordinator in a process of its own, over HTTP(S).
#include <cstdio>
#include <string>

#include "common/log_lines.hpp"
#include "common/process.hpp"
#include "common/program.hpp"
#include "common/stop_signals.hpp"
#include "common/token_file.hpp"
#include "coordinator/options.hpp"
#include "coordinator/state_folder.hpp"
#include "parsyn/coordinator.hpp"
#include "parsyn/error.hpp"
#include "parsyn/http.hpp"
#ifdef PARSYN_WITH_TORCH
#include "parsyn/torch.hpp"
#endif

namespace parsyn::programs {
namespace {

constexpr char kName[] = "parsyn-coordinator";

int serve(const CoordinatorProgramOptions &options) {
  // Before any thread: the library's threads must not receive these signals.
  StopSignals signals;
  const LogSink log = make_stderr_log(options.log);
  const auto say = [&](LogLevel level, std::string_view id, const std::string &text) {
    log({level, id, text, {}});
  };

  const StateFolder state(options.state);
  if (state.make_token_if_missing()) {
    say(LogLevel::info, "coordinator.token_made",
        "the operator's token is in " + state.token_file().string() +
            ": give it to parsyn-job as --token-file");
  }
  const std::string token = read_token_file(state.token_file(), [&](const std::string &text) {
    say(LogLevel::warning, "coordinator.token_open", text);
  });

  CoordinatorOptions settings;
  settings.store = open_object_store(options.storage);
  settings.log = log;
  settings.heartbeat_interval = options.heartbeat_interval;
  settings.lease_duration = options.lease;
  settings.join_window = options.join_window;
  settings.threads = options.threads;
  settings.keep_rounds = options.keep_rounds;
  if (options.storage == "memory:") {
    say(LogLevel::warning, "coordinator.in_memory",
        "with --storage memory: nothing survives the end of this process");
  } else {
    settings.journal = make_sqlite_journal({.file = state.path() / "journal.sqlite", .vfs = {}, .log = log});
  }
#ifdef PARSYN_WITH_TORCH
  settings.torchscript_importer = torchscript_state_dict;
#endif
  const auto coordinator = make_coordinator(settings);

  ServeOptions serving;
  serving.address = options.listen.host;
  serving.port = options.listen.port;
  serving.operator_token = token;
  serving.certificate_file = options.tls_certificate;
  serving.private_key_file = options.tls_key;
  serving.client_ca_file = options.client_ca;
  serving.allow_plain_http = options.allow_plain_http;
  serving.log = log;
  CoordinatorServer server(*coordinator, serving);

  log({LogLevel::info,
       "coordinator.started",
       std::string(kName) + " listens on " + server.url(),
       {{"version", PARSYN_VERSION}, {"state", options.state.string()}, {"storage", options.storage}}});
  std::printf("parsyn-coordinator is listening on %s\n", server.url().c_str());
  std::fflush(stdout);

  const int signal = signals.wait();
  say(LogLevel::info, "coordinator.stopping", "stopping on signal " + std::to_string(signal));
  server.stop();
  coordinator->stop();
  say(LogLevel::info, "coordinator.stopped", std::string(kName) + " has stopped");
  return kWorked;
}

}  // namespace
}  // namespace parsyn::programs

int main(int argc, char **argv) {
  using namespace parsyn::programs;
  ignore_broken_pipes();
  raise_open_files_limit();
  CoordinatorProgramOptions options;
  if (const auto exit_code = read_options(argc, argv, options)) return *exit_code;
  return run_program({.name = kName}, [&] { return serve(options); });
}
