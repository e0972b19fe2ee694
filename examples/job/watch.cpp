#include "job/watch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "common/plain_text.hpp"
#include "common/program.hpp"
#include "common/stop_signals.hpp"
#include "job/event_follower.hpp"
#include "job/progress_view.hpp"
#include "job/terminal.hpp"
#include "parsyn/error.hpp"
#include "text/encoding.hpp"
#include "transport/paths.hpp"

namespace parsyn::programs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRefreshInterval{1};
constexpr std::chrono::seconds kProgressLineInterval{5};
constexpr std::chrono::seconds kSameLineInterval{60};

void print_trouble(const std::string &text) { print_message("parsyn-job", text); }

int exit_code_of(const Json &job) {
  const std::string state = text_at(job, "state");
  return state == "completed" || state == "stopped" ? kWorked : kFailed;
}

class Watcher {
 public:
  Watcher(RestClient &client, std::uint64_t id) : client_(client), id_(id) { refresh(); }

  void on_event(const StreamEvent &event) {
    const Json document = Json::parse(event.data, nullptr, false);
    if (document.is_discarded()) return;
    const Json data = value_at(document, "data");
    if (event.type == "worker_progress") {
      // An old one, told again to a watcher that came late, is not what the worker does now.
      if (whole_at(data, "round") >= view_.round()) view_.take_progress(data);
    } else if (event.type == "round_completed") {
      print_round(whole_at(data, "round"));
    } else if (event.type == "validation") {
      terminal_.print(validation_line(data, view_.num_rounds()));
    } else if (event.type == "round_failed" || event.type == "report_refused" || event.type == "notice" ||
               event.type == "advice" || event.type == "job_waiting" || event.type == "job_stopping" ||
               event.type == "job_evaluating") {
      terminal_.print(text_at(document, "text"));
    }
    show();
  }

  void on_tick(bool is_away) {
    // What was last heard of is not what the workers do now.
    if (is_away) return;
    if (terminal_.can_redraw() && Clock::now() - refreshed_ >= kRefreshInterval) {
      refreshed_ = Clock::now();
      try {
        refresh();
      } catch (const Error &error) {
        // Bars that stand still for a moment; the event stream is what tells of a coordinator that is away.
        if (error.code() != ErrorCode::unavailable && error.code() != ErrorCode::timeout) throw;
      }
    }
    show();
  }

  void on_trouble(const std::string &text) {
    terminal_.clear_block();
    print_trouble(text);
  }

  int finish() {
    terminal_.clear_block();
    refresh();
    const std::string state = text_at(job_, "state");
    terminal_.print("job " + std::to_string(id_) + " is " + state + ": " + text_at(job_, "reason"));
    const std::string last = final_line(job_);
    if (!last.empty()) terminal_.print(last);
    return exit_code_of(job_);
  }

  void interrupted() {
    terminal_.clear_block();
    print_trouble("no longer watching; job " + std::to_string(id_) + " goes on: parsyn-job watch " +
                  std::to_string(id_));
  }

 private:
  void refresh() {
    job_ = client_.get(path_of(Resource::job, id_));
    view_.take_document(job_);
    refreshed_ = Clock::now();
  }

  void print_round(std::uint64_t round) {
    const auto record_of = [&] {
      for (const Json &record : value_at(job_, "rounds")) {
        if (whole_at(record, "round") == round && true_at(record, "succeeded")) return record;
      }
      return Json();
    };
    Json record = record_of();
    if (record.is_null()) {
      refresh();
      record = record_of();
    }
    if (!record.is_null()) terminal_.print(round_line(record, view_.num_rounds()));
  }

  void show() {
    const bool has_progress = view_.round() > 0 && !view_.workers().empty();
    if (terminal_.can_redraw()) {
      std::size_t name_width = 0;
      for (const auto &[id, worker] : view_.workers())
        name_width = std::max(name_width, character_count(worker.name));
      std::vector<std::string> bars;
      if (has_progress) bars.push_back(of_rounds(view_.round(), view_.num_rounds()));
      for (const auto &[id, worker] : view_.workers())
        bars.push_back(bar_line(worker, name_width, terminal_.width()));
      terminal_.draw_block(std::move(bars));
    } else if (Clock::now() - told_ >= kProgressLineInterval && has_progress) {
      const std::string line = progress_line(view_);
      if (line == told_line_ && Clock::now() - told_ < kSameLineInterval) return;
      told_ = Clock::now();
      told_line_ = line;
      terminal_.print(line);
    }
  }

  RestClient &client_;
  std::uint64_t id_;
  Terminal terminal_;
  JobView view_;
  Json job_;
  Clock::time_point refreshed_;
  Clock::time_point told_ = Clock::now();
  std::string told_line_;
};

void print_event(const StreamEvent &event, bool json) {
  if (json) {
    // One line as it came; the stream cannot hold a line feed in it.
    return write_output(plain_text(event.data) + "\n");
  }
  const Json document = Json::parse(event.data, nullptr, false);
  if (document.is_discarded()) return;
  write_output(plain_text(event.id) + "  " + padded(plain_text(event.type), 16) + "  " +
               text_at(document, "text") + "\n");
}

std::uint64_t newest_event(RestClient &client, std::uint64_t job) {
  const auto answer = client.perform(client.request("HEAD", path_of(Resource::job, job) + "/events"));
  const auto newest = text::parse_u64(answer.header(transport::kLastEvent));
  if (!newest)
    throw Error(ErrorCode::protocol, "the coordinator does not say which event of the job is the newest");
  return *newest;
}

/// Up to the newest event of now, all of them or an Error.
int print_events_so_far(RestClient &client, const ClientOptions &options, std::uint64_t job,
                        const StopSignals &signals) {
  const std::uint64_t newest = newest_event(client, job);
  std::uint64_t reached = 0;
  const auto is_all = [&] { return reached >= newest; };
  if (is_all()) return kWorked;
  FollowOptions follow;
  follow.job = job;
  follow.tries_again = false;
  follow.on_event = [&](const StreamEvent &event) {
    if (is_all()) return;
    reached = text::parse_u64(event.id).value_or(reached);
    // Later ones come where the newest, a worker's progress, has been dropped meanwhile.
    if (reached <= newest) print_event(event, options.json);
  };
  follow.on_tick = [&](bool) { return signals.received() == 0 && !is_all(); };
  const auto how_far = [&] {
    return "; events were printed up to " + std::to_string(reached) + " of " + std::to_string(newest);
  };
  try {
    follow_events(client, follow);
  } catch (const Error &error) {
    throw Error(error.code(), error.message() + how_far(), error.faults());
  }
  if (signals.received() == 0 && !is_all())
    throw Error(ErrorCode::unavailable, "the coordinator ended the stream" + how_far());
  return signals.received() == 0 ? kWorked : 128 + signals.received();
}

int follow_to_end(RestClient &client, const ClientOptions &options, std::uint64_t job,
                  const StopSignals &signals) {
  FollowOptions follow;
  follow.job = job;
  follow.on_event = [&](const StreamEvent &event) { print_event(event, options.json); };
  follow.on_tick = [&](bool) { return signals.received() == 0; };
  follow.on_trouble = print_trouble;
  follow_events(client, follow);
  return signals.received() == 0 ? kWorked : 128 + signals.received();
}

/// Runs `body`; a signal interrupts the client. Nothing: it was interrupted.
template <typename Body>
std::optional<int> until_signal(RestClient &client, int &signal, const Body &body) {
  StopSignals signals([&] { client.interrupt(); });
  try {
    return body(signals);
  } catch (const Error &error) {
    signal = signals.received();
    if (error.code() != ErrorCode::cancelled || signal == 0) throw;
    return std::nullopt;
  }
}

}  // namespace

int watch_job(RestClient &client, const ClientOptions &options, std::uint64_t id) {
  int signal = 0;
  if (options.json) {
    const auto code = until_signal(client, signal, [&](const StopSignals &signals) {
      client.get(path_of(Resource::job, id));  // nothing is tried again for a coordinator that is not there
      follow_events(client, {id, [](const StreamEvent &event) { print_event(event, true); },
                             [&](bool) { return signals.received() == 0; }, print_trouble});
      return exit_code_of(client.get(path_of(Resource::job, id)));
    });
    return code.value_or(128 + signal);
  }
  std::optional<Watcher> watcher;
  const auto code = until_signal(client, signal, [&](const StopSignals &signals) {
    watcher.emplace(client, id);
    FollowOptions follow;
    follow.job = id;
    follow.on_event = [&](const StreamEvent &event) { watcher->on_event(event); };
    follow.on_tick = [&](bool is_away) {
      watcher->on_tick(is_away);
      return signals.received() == 0;
    };
    follow.on_trouble = [&](const std::string &text) { watcher->on_trouble(text); };
    follow_events(client, follow);
    return watcher->finish();
  });
  if (code) return *code;
  if (watcher) watcher->interrupted();
  return 128 + signal;
}

int print_events(RestClient &client, const ClientOptions &options, const Events &command) {
  int signal = 0;
  const auto code = until_signal(client, signal, [&](const StopSignals &signals) {
    // Nothing is tried again for a coordinator that is not there.
    client.get(path_of(Resource::job, command.id));
    return command.follow ? follow_to_end(client, options, command.id, signals)
                          : print_events_so_far(client, options, command.id, signals);
  });
  return code.value_or(128 + signal);
}

}  // namespace parsyn::programs
