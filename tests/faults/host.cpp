// Public failure reports about what a library does to its host's process, each by its number.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <locale>
#include <new>
#include <vector>

#include "http/http_client.hpp"
#include "parsyn/http.hpp"
#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/http_objects.hpp"
#include "support/loopback_serving.hpp"
#include "support/small_job.hpp"

// NOLINTNEXTLINE: POSIX asks for this declaration.
extern char **environ;

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// SA_RESTORER: the C library adds it to every action that is set, also to one that is set back.
constexpr int kSetByTheCLibrary = 0x04000000;

/// What belongs to the whole process.
struct ProcessSettings {
  std::string c_locale = ::setlocale(LC_ALL, nullptr);
  std::string cpp_locale = std::locale().name();
  std::vector<void *> signal_handlers;
  std::vector<int> signal_flags;
  std::vector<int> blocked_signals;
  std::string folder = std::filesystem::current_path().string();
  mode_t umask_bits = 0;
  std::vector<std::streambuf *> streams{std::cin.rdbuf(), std::cout.rdbuf(), std::cerr.rdbuf(),
                                        std::clog.rdbuf()};
  std::vector<std::ios_base::fmtflags> formats{std::cout.flags(), std::cerr.flags(), std::clog.flags()};
  std::vector<int> descriptor_flags{::fcntl(0, F_GETFL), ::fcntl(1, F_GETFL), ::fcntl(2, F_GETFL)};
  std::terminate_handler on_terminate = std::get_terminate();
  std::new_handler on_no_memory = std::get_new_handler();
  int rounding = std::fegetround();
  std::vector<std::string> environment;

  ProcessSettings() {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action {};
      if (::sigaction(signal, nullptr, &action) != 0) continue;
      signal_handlers.push_back(reinterpret_cast<void *>(action.sa_handler));
      signal_flags.push_back(action.sa_flags & ~kSetByTheCLibrary);
      blocked_signals.push_back(sigismember(&mask, signal));
    }
    umask_bits = ::umask(0);
    ::umask(umask_bits);
    for (char **entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  }
  bool operator==(const ProcessSettings &) const = default;
};

/// What is written to the process's standard output and error while it lives.
class CapturedOutput {
 public:
  CapturedOutput() : file_(folder_.file("output", "")) {
    std::cout.flush();
    std::fflush(nullptr);
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    for (int i = 0; i < 2; ++i) {
      former_[i] = ::dup(i + 1);
      ::dup2(descriptor, i + 1);
    }
    ::close(descriptor);
  }
  ~CapturedOutput() { end(); }
  CapturedOutput(const CapturedOutput &) = delete;
  CapturedOutput &operator=(const CapturedOutput &) = delete;

  void end() {
    std::fflush(nullptr);
    for (int i = 0; i < 2; ++i) {
      if (former_[i] < 0) continue;
      ::dup2(former_[i], i + 1);
      ::close(std::exchange(former_[i], -1));
    }
  }
  std::string text() const { return system::read_text_file(file_, 1 << 20); }

 private:
  TemporaryFolder folder_;
  std::filesystem::path file_;
  int former_[2] = {-1, -1};
};

/// Numbers as many people write them: 1.234.567,5
class CommaNumbers final : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// The host's own choice of a locale, for as long as this lives.
class CommaLocale {
 public:
  CommaLocale() : former_c_(::setlocale(LC_ALL, nullptr)) {
    for (const char *name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
      if (::setlocale(LC_ALL, name) != nullptr) break;  // where the system has one
    }
  }
  ~CommaLocale() {
    std::locale::global(former_);
    ::setlocale(LC_ALL, former_c_.c_str());
  }
  CommaLocale(const CommaLocale &) = delete;
  CommaLocale &operator=(const CommaLocale &) = delete;

 private:
  std::string former_c_;
  std::locale former_ = std::locale::global(std::locale(std::locale(), new CommaNumbers));
};

struct Outcome {
  JobState state = JobState::waiting;
  float value = 0;
  std::string document;
};

/// A whole job over HTTP on files, from the first object to the last destructor.
Outcome run_job() {
  TemporaryFolder folder;
  CoordinatorOptions options;
  options.store = make_file_store(folder.path() / "store");
  SmallJob small(constant(0), 1200, options);
  CoordinatorServer server(*small.coordinator, loopback_serving());
  HttpTransportOptions transport;
  transport.url = server.url();
  transport.token = small.coordinator->add_worker({"w", WorkerKind::own}).token;
  WorkerOptions worker_options;
  worker_options.transport = make_http_transport(transport);
  const auto factory = std::make_shared<CountingFactory>();
  factory->loss = [](std::uint64_t) { return 1234.5; };
  worker_options.trainer_factory = factory;
  Worker worker(std::move(worker_options));
  JobConfig config = small.config(1, 1, 2);
  config.config.learning_rate = 0.25;
  config.distributed->steps_per_round = 2000;
  const Id job = small.coordinator->submit(config).id;
  Outcome outcome;
  outcome.state = small.ended(job).state;
  outcome.value = small.value(job);
  http::HttpClient client;
  auto request = get(server.url() + "/api/v1/training-jobs/" + std::to_string(job));
  request.headers["Authorization"] = std::string("Bearer ") + kOperatorToken;
  for (const char byte : client.perform(request).body)
    if (byte != ' ' && byte != '\n') outcome.document += byte;
  return outcome;
}

}  // namespace

TEST_CASE("fault 134: a job leaves every setting of the host's process as it was, and writes to no stream") {
  const ProcessSettings before;
  CapturedOutput captured;
  const Outcome outcome = run_job();
  captured.end();
  const ProcessSettings after;
  CHECK(outcome.state == JobState::completed);
  CHECK(captured.text().empty());
  CHECK(after.c_locale == before.c_locale);
  CHECK(after.cpp_locale == before.cpp_locale);
  CHECK(after.signal_handlers == before.signal_handlers);
  CHECK(after.signal_flags == before.signal_flags);
  CHECK(after.blocked_signals == before.blocked_signals);
  CHECK(after.folder == before.folder);
  CHECK(after.umask_bits == before.umask_bits);
  CHECK(after.environment == before.environment);
  CHECK(after == before);
}

TEST_CASE("fault 134: numbers are read and written in one way, whatever locale the host has chosen") {
  Outcome outcome;
  std::string c_locale;
  {
    const CommaLocale chosen;
    c_locale = ::setlocale(LC_ALL, nullptr);
    outcome = run_job();
    CHECK(::setlocale(LC_ALL, nullptr) == c_locale);
  }
  CHECK(outcome.state == JobState::completed);
  CHECK(outcome.value == 2.0F);
  for (const char *text : {"\"learning_rate\":0.25", "\"steps_per_round\":2000", "\"train_loss\":1234.5"}) {
    INFO(text);
    CHECK(outcome.document.find(text) != std::string::npos);
  }
}
