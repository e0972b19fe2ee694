// What a round must have come to, computed once more with plain loops; and which objects there must be.
#include <algorithm>
#include <cstring>

#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"
#include "sim/ledger.hpp"
#include "system/sha256.hpp"

namespace parsyn::sim {
namespace {

std::string job_text(Id job) { return "job " + std::to_string(job); }

std::string round_text(Id job, std::uint32_t round) {
  return "round " + std::to_string(round) + " of " + job_text(job);
}

std::uint32_t attempt_of_global(const std::string &key) {
  const std::string mark = "/global-";
  const std::size_t at = key.find(mark);
  return at == std::string::npos ? 0 : static_cast<std::uint32_t>(std::stoul(key.substr(at + mark.size())));
}

StateDict state_in(const std::string &bytes) {
  return read_safetensors(MemorySource(std::as_bytes(std::span(bytes.data(), bytes.size()))));
}

template <typename T>
std::vector<T> elements_of(const Tensor &tensor) {
  std::vector<T> elements(tensor.data.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.data.data(), tensor.data.size());
  return elements;
}

template <typename T>
Tensor with_elements(Tensor like, const std::vector<T> &elements) {
  if (!elements.empty()) std::memcpy(like.data.data(), elements.data(), like.data.size());
  return like;
}

}  // namespace

std::string Ledger::average_of(Id job, const std::vector<ReportSummary> &reports) {
  std::vector<StateDict> states;
  for (const ReportSummary &report : reports) {
    const auto content = contents_.find(report.sha256);
    if (content == contents_.end()) {
      fail("an update that " + job_text(job) + " counted was never stored");
      return {};
    }
    states.push_back(state_in(content->second));
  }
  StateDict mean = states.front();
  for (auto &[name, tensor] : mean) {
    if (tensor.dtype == Dtype::i64) {
      auto most = elements_of<std::int64_t>(tensor);
      for (const StateDict &state : states) {
        const auto other = elements_of<std::int64_t>(state.at(name));
        for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], other[i]);
      }
      tensor = with_elements(tensor, most);
      continue;
    }
    auto result = elements_of<float>(tensor);
    for (std::size_t i = 0; i < result.size(); ++i) {
      double sum = 0;
      double total = 0;
      for (std::size_t k = 0; k < states.size(); ++k) {
        const auto n = static_cast<double>(reports[k].num_examples);
        sum += n * static_cast<double>(elements_of<float>(states[k].at(name))[i]);
        total += n;
      }
      result[i] = static_cast<float>(sum / total);
    }
    tensor = with_elements(tensor, result);
  }
  MemorySink out;
  write_safetensors(mean, out, {{"format", "pt"}});
  return {reinterpret_cast<const char *>(out.bytes().data()), out.bytes().size()};
}

void Ledger::apply_round(Id job, std::uint32_t round, const std::string &document) {
  JobView &view = jobs_[job];
  RoundRecord record;
  wire::decode_stored(document, record);
  const auto old = view.rounds.find(round);
  if (old != view.rounds.end()) {
    if (old->second.succeeded) {
      const bool same = record.succeeded && record.model_key == old->second.model_key &&
                        record.model_sha256 == old->second.model_sha256 &&
                        record.examples == old->second.examples &&
                        record.contributions.size() == old->second.contributions.size();
      if (!same) fail(round_text(job, round) + " had succeeded, and its record has changed");
      old->second = record;
      return;
    }
    if (record.failed_attempts < old->second.failed_attempts)
      fail(round_text(job, round) + " has fewer failed attempts than before");
  }
  if (!view.rounds.empty() && round < view.rounds.rbegin()->first)
    fail(round_text(job, round) + " is recorded after a later one");
  if (round > 1 && (!view.rounds.contains(round - 1) || !view.rounds[round - 1].succeeded))
    fail(round_text(job, round) + " is recorded, and the one before has not succeeded");
  view.rounds[round] = record;
  if (record.succeeded) check_success(job, record);
}

void Ledger::check_success(Id job, const RoundRecord &record) {
  ++rounds_;
  const JobView &view = jobs_[job];
  const JobConfig &config = view.job.setup.config;
  const std::uint32_t min = config.is_distributed() ? config.distributed->min_workers : 1;
  const std::uint32_t max = config.is_distributed() ? config.distributed->max_workers : 1;
  const std::uint32_t attempt = attempt_of_global(record.model_key);
  const std::string what = round_text(job, record.round);
  std::vector<ReportSummary> counted;
  std::map<Id, std::string> states;
  for (const Contribution &part : record.contributions) {
    if (!states.try_emplace(part.worker_id, part.state).second)
      fail("worker " + std::to_string(part.worker_id) + " is twice in " + what);
    if (part.state != "valid") continue;
    const auto accepted = accepted_.find({job, attempt, part.worker_id});
    if (accepted == accepted_.end()) {
      fail("worker " + std::to_string(part.worker_id) + " counts in " + what +
           ", and its report was not kept");
      return;
    }
    if (part.num_examples != accepted->second.num_examples || part.num_examples == 0) {
      fail("worker " + std::to_string(part.worker_id) + " weighs " + std::to_string(part.num_examples) +
           " in " + what + "; it reported " + std::to_string(accepted->second.num_examples));
    }
    counted.push_back(accepted->second);
  }
  if (counted.size() < min || counted.size() > max) {
    fail(what + " counts " + std::to_string(counted.size()) + " updates; the job wants " +
         std::to_string(min) + " to " + std::to_string(max));
  }
  for (const auto &[key, report] : accepted_) {
    const auto &[of_job, of_attempt, worker] = key;
    if (of_job != job || of_attempt != attempt) continue;
    const auto state = states.find(worker);
    const std::string found = state == states.end() ? "absent" : state->second;
    bool finite = true;
    for (const auto &[sent_key, reports] : sent_) {
      for (const auto &[sent, is_finite] : reports) {
        if (sent.sha256 == report.sha256) finite = is_finite;
      }
    }
    const bool may_be_refused = !finite || rules_.may_corrupt;
    const bool fits = found == "valid" ? finite
                                       : (found == "empty" && report.num_examples == 0) ||
                                             (found == "refused" && may_be_refused);
    if (!fits)
      fail("the accepted report of worker " + std::to_string(worker) + " in " + what + " is " + found);
  }
  if (counted.empty() || !violation_.empty()) return;
  const std::string mean = average_of(job, counted);
  const auto stored = contents_.find(record.model_sha256);
  if (stored == contents_.end()) return fail("the model of " + what + " was never stored");
  if (stored->second != mean) fail("the model of " + what + " is not the average of its updates");
}

void Ledger::check_global(Id job) {
  const JobView &view = jobs_[job];
  if (!view.has_state) return;
  std::string expected = view.job.initial_global.sha256;
  for (const auto &[round, record] : view.rounds) {
    if (record.succeeded) expected = record.model_sha256;
  }
  const std::string &found =
      view.state.global.key.empty() ? view.job.initial_global.sha256 : view.state.global.sha256;
  if (found != expected)
    fail("the global model of " + job_text(job) + " is not that of its last round that succeeded");
}

std::set<std::uint32_t> Ledger::kept_rounds(const JobView &view) const {
  std::set<std::uint32_t> kept;
  double best_loss = 0;
  std::optional<std::uint32_t> best;
  for (auto record = view.rounds.rbegin(); record != view.rounds.rend(); ++record) {
    if (record->second.succeeded && kept.size() < rules_.keep_rounds) kept.insert(record->first);
  }
  for (const auto &[round, record] : view.rounds) {
    if (!record.succeeded || !record.validation) continue;
    if (best && record.validation->loss >= best_loss) continue;
    best = round;
    best_loss = record.validation->loss;
  }
  if (best) kept.insert(*best);
  return kept;
}

void Ledger::collect_keys(std::map<std::string, std::string> &required, std::set<std::string> &allowed,
                          std::vector<std::string> &open_folders) const {
  const auto table = [&](const char *name) {
    const auto found = durable_.find(name);
    return found == durable_.end() ? Table{} : found->second;
  };
  for (const auto &[key, document] : table("datasets")) {
    wire::StoredDataset dataset;
    wire::decode_stored(document, dataset);
    const DatasetInfo &info = dataset.info;
    const std::string folder = "datasets/" + std::to_string(info.id);
    if (info.train) required[folder + "/train.safetensors"];
    if (info.validation) required[folder + "/validation.safetensors"];
  }
  for (const auto &[key, document] : table("models")) {
    wire::StoredModel model;
    wire::decode_stored(document, model);
    const ModelInfo &info = model.info;
    if (!info.weights_key.empty()) required[info.weights_key] = info.weights_sha256;
  }
  for (const auto &[id, view] : jobs_) {
    if (!view.has_state) continue;
    const ObjectInfo &global = view.state.global.key.empty() ? view.job.initial_global : view.state.global;
    required[global.key] = global.sha256;
    allowed.insert(view.job.initial_global.key);
    for (const std::uint32_t round : kept_rounds(view))
      required[view.rounds.at(round).model_key] = view.rounds.at(round).model_sha256;
    if (is_terminal(view.state.job.state)) continue;
    open_folders.push_back("jobs/" + std::to_string(id) + "/rounds/" + std::to_string(view.state.job.round) +
                           "/updates-" + std::to_string(view.state.job.attempt) + "/");
    std::vector<ObjectInfo> partitions;
    const Table all = table("job_partitions");
    if (const auto found = all.find(wire::journal_key({id})); found != all.end())
      wire::decode_stored(found->second, partitions);
    for (const ObjectInfo &partition : partitions) required[partition.key] = partition.sha256;
  }
}

void Ledger::store_opened(const ObjectStore &store) {
  std::map<std::string, std::string> required;
  std::set<std::string> allowed;
  std::vector<std::string> open_folders;
  collect_keys(required, allowed, open_folders);
  for (const auto &[key, sha256] : required) {
    try {
      // Not stat(), which flushes: the one who watches changes nothing.
      const auto source = store.open(key);
      std::string bytes(source->size(), '\0');
      source->read_at(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
      if (!sha256.empty() && system::sha256_hex(bytes) != sha256)
        fail("object " + key + " is not what the journal says");
    } catch (const Error &error) {
      fail("object " + key + ", which the journal names: " + error.message());
    }
  }
  wire::StoredCounters last;
  if (const auto found = durable_["counters"].find("all"); found != durable_["counters"].end())
    wire::decode_stored(found->second, last);
  const std::pair<std::string, Id> folders[] = {
      {"jobs/", last.job}, {"datasets/", last.dataset}, {"models/", last.model}};
  for (const auto &[folder, most] : folders) {
    for (const std::string &key : store.list(folder)) {
      // What was written for a number that was never given out is written over when it is.
      const bool is_beyond = std::stoull(key.substr(folder.size())) > most;
      const bool is_open =
          std::ranges::any_of(open_folders, [&](const auto &open) { return key.starts_with(open); });
      if (!is_beyond && !is_open && !required.contains(key) && !allowed.contains(key))
        fail("object " + key + " is left over");
    }
  }
}

}  // namespace parsyn::sim
