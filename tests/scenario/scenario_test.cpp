// Runs the transcripts beside this file: what a Job is told, and, indented, what it does about it. Each is
// the specification of one situation, in words that a reviewer can check.
//
// PARSYN_RECORD=1 writes the transcripts anew instead of comparing; read the difference before you keep it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "core/job.hpp"
#include "support/catch.hpp"

namespace {

using namespace parsyn;
using namespace parsyn::core;

/// "key=value" words of a line.
class Words {
 public:
  explicit Words(const std::string &line) {
    std::istringstream stream(line);
    for (std::string word; stream >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        plain_.push_back(word);
      } else {
        named_[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }
  const std::string &at(std::size_t index) const { return plain_.at(index); }
  std::size_t count() const { return plain_.size(); }
  bool has(const std::string &name) const {
    return named_.contains(name) || std::find(plain_.begin(), plain_.end(), name) != plain_.end();
  }
  std::string text(const std::string &name, const std::string &absent = {}) const {
    const auto found = named_.find(name);
    return found == named_.end() ? absent : found->second;
  }
  std::uint64_t number(const std::string &name, std::uint64_t absent) const {
    return has(name) ? std::stoull(named_.at(name)) : absent;
  }
  double real(const std::string &name) const { return std::stod(named_.at(name)); }

 private:
  std::vector<std::string> plain_;
  std::map<std::string, std::string> named_;
};

class Scenario {
 public:
  /// One command's effect, as indented lines.
  std::string run(const std::string &command) {
    const Words words(command);
    const std::string &verb = words.at(0);
    out_.str({});
    if (verb == "job") {
      make_job(words);
    } else if (verb == "at") {
      now_ = std::chrono::milliseconds(static_cast<std::int64_t>(std::stod(words.at(1)) * 1000));
      show(job_->step(Tick{}, now_));
    } else {
      show(job_->step(event_of(verb, words), now_));
    }
    return out_.str();
  }

 private:
  void make_job(const Words &words) {
    JobSetup setup;
    setup.id = 1;
    setup.config.name = "scenario";
    setup.config.seed = words.number("seed", 1);
    setup.config.config.epochs = static_cast<std::uint32_t>(words.number("epochs", 1));
    setup.config.config.batch_size = static_cast<std::uint32_t>(words.number("batch", 32));
    if (words.has("patience"))
      setup.config.config.early_stopping =
          EarlyStopping{static_cast<std::uint32_t>(words.number("patience", 1)), 0};
    setup.config.config.use_peft = words.has("peft");
    if (!words.has("disabled")) {
      DistributedConfig distributed;
      distributed.num_rounds = static_cast<std::uint32_t>(words.number("rounds", 2));
      distributed.min_workers = static_cast<std::uint32_t>(words.number("min", 2));
      distributed.max_workers = static_cast<std::uint32_t>(words.number("max", 3));
      distributed.aggregation_timeout = static_cast<std::uint32_t>(words.number("timeout", 60));
      distributed.fault_tolerance = static_cast<std::uint32_t>(words.number("tolerance", 1));
      setup.config.distributed = distributed;
    }
    if (words.has("select")) {
      setup.config.worker_selection.mode = SelectionMode::own;
      std::istringstream ids(words.text("select"));
      for (std::string id; std::getline(ids, id, ',');)
        setup.config.worker_selection.worker_ids.push_back(std::stoull(id));
    }
    setup.model.kind = "mlp";
    setup.local_data = words.has("local");
    setup.dataset_name = "data";
    setup.train_examples = words.number("examples", 3000);
    setup.validation_examples = words.number("validation", 0);
    setup.join_window = std::chrono::seconds(5);
    setup.examples_per_worker_max = 1'000'000;
    job_.emplace(setup);
    show(job_->start({}, now_));
  }

  JobEvent event_of(const std::string &verb, const Words &words) {
    const Id worker = words.count() > 1 ? std::stoull(words.at(1)) : 0;
    const auto round = static_cast<std::uint32_t>(words.number("round", job_->round()));
    if (verb == "online") {
      WorkerProfile profile;
      profile.id = worker;
      profile.lease = words.has("lease") ? words.number("lease", 0) : ++last_lease_;
      last_lease_ = std::max(last_lease_, profile.lease);
      profile.capabilities.model_kinds = {words.text("kind", "mlp")};
      profile.local_datasets = {{"data", words.number("examples", 100)}};
      leases_[worker] = profile.lease;
      return WorkerOnline{profile};
    }
    if (verb == "offline") return WorkerOffline{worker};
    if (verb == "partitions") {
      PartitionsMade made;
      for (std::size_t i = 1; i < words.count(); ++i) made.examples.push_back(std::stoull(words.at(i)));
      return made;
    }
    if (verb == "report") {
      UpdateReported reported;
      reported.report = {worker, words.number("lease", leases_[worker]), round,
                         words.text("update", "u" + words.at(1)), words.number("n", 1000)};
      if (words.has("loss")) reported.received = Evaluation{words.real("loss"), {}, 100};
      return reported;
    }
    if (verb == "valid") return UpdateVerdict{worker, round, job_->attempt(), {}};
    if (verb == "invalid")
      return UpdateVerdict{worker, round, job_->attempt(), "tensor w has the value NaN at index 5"};
    if (verb == "failed")
      return TaskFailed{worker, words.number("lease", leases_[worker]), round, "out of memory"};
    if (verb == "averaged")
      return RoundAveraged{round, job_->attempt(), words.text("failure"), "key", "sha", 1};
    if (verb == "evaluated") {
      if (!words.has("loss")) return FinalEvaluation{worker, {}, "out of memory"};
      return FinalEvaluation{worker, Evaluation{words.real("loss"), {}, 100}, {}};
    }
    if (verb == "held_up") return HeldUp{std::chrono::seconds(std::stoi(words.at(1)))};
    if (verb == "stop") return StopRequested{};
    if (verb == "cancel") return CancelRequested{};
    throw std::runtime_error("the transcript has an unknown command: " + verb);
  }

  void show(const JobActions &actions) {
    if (actions.answer) {
      const char *verdicts[] = {"accepted", "duplicate", "refused"};
      out_ << "    answer: " << verdicts[static_cast<int>(actions.answer->verdict)];
      if (!actions.answer->code.empty())
        out_ << " " << actions.answer->code << ": " << actions.answer->reason;
      out_ << "\n";
    }
    for (const Notice &notice : actions.notices) out_ << "    " << notice.type << ": " << notice.text << "\n";
    if (actions.make_partitions) out_ << "    make partitions: " << *actions.make_partitions << "\n";
    const auto list = [&](const char *what, const auto &items, const auto &text) {
      if (items.empty()) return;
      out_ << "    " << what << ":";
      for (const auto &item : items) out_ << " " << text(item);
      out_ << "\n";
    };
    list("withdraw", actions.withdraw, [](Id id) { return std::to_string(id); });
    list("invite", actions.invite, [](const JobInvitation &invitation) {
      return std::to_string(invitation.worker) +
             (invitation.partition ? "(partition " + std::to_string(*invitation.partition) + ")" : "");
    });
    list("check", actions.check, [](Id id) { return std::to_string(id); });
    list("average", actions.aggregate, [](const ReportSummary &report) {
      return std::to_string(report.worker) + "*" + std::to_string(report.num_examples);
    });
    list("evaluate", actions.evaluate,
         [](const Invitation &invitation) { return std::to_string(invitation.worker); });
    if (actions.wake_at)
      out_ << "    wake at: " << static_cast<double>(actions.wake_at->count()) / 1000 << " s\n";
    if (actions.ended) out_ << "    ended: " << job_state_name(job_->state()) << "\n";
  }

  std::optional<Job> job_;
  Time now_{0};
  std::uint64_t last_lease_ = 0;
  std::map<Id, std::uint64_t> leases_;
  std::ostringstream out_;
};

std::vector<std::filesystem::path> transcripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::filesystem::path(PARSYN_TEST_DATA) / "scenario")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("the job does what its transcripts say") {
  const auto paths = transcripts();
  REQUIRE(paths.size() >= 10);
  for (const auto &path : paths) {
    std::ifstream file(path);
    std::ostringstream original;
    original << file.rdbuf();
    Scenario scenario;
    std::string played;
    std::istringstream lines(original.str());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("    ")) continue;  // what was recorded
      played += line + "\n";
      if (!line.empty() && line[0] != '#') played += scenario.run(line);
    }
    if (std::getenv("PARSYN_RECORD") != nullptr) {
      std::ofstream(path) << played;
      continue;
    }
    INFO(path.filename().string());
    CHECK(played == original.str());
  }
}
