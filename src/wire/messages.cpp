#include "wire/messages.hpp"

#include "text/utf8.hpp"
#include "wire/message_reader.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {
namespace {

constexpr TextRule kWord{.bytes_max = 200};
constexpr TextRule kSentence{.bytes_max = limits::kReasonBytesMax, .characters = Characters::sentence};

void read_capabilities(ObjectReader &parent, TrainerCapabilities &capabilities) {
  auto reader = parent.object("capabilities", Presence::required);
  if (!reader) return;
  reader->read_texts("model_kinds", capabilities.model_kinds, kWord, kModelKindsMax, Presence::required);
  reader->read("bf16", capabilities.bf16, Presence::required);
  reader->read("lora", capabilities.lora, Presence::required);
  reader->read("device", capabilities.device, kWord, Presence::required);
}

void read_local_datasets(ObjectReader &parent, std::vector<LocalDataset> &datasets) {
  for (const auto &[value, path] : parent.elements("local_datasets", kLocalDatasetsMax, Presence::nullable)) {
    ObjectReader reader(*value, path, parent.faults(), UnknownFields::ignored);
    LocalDataset &dataset = datasets.emplace_back();
    reader.read_name("name", dataset.name, Presence::required);
    reader.read_whole("num_examples", dataset.num_examples, kAnyCount, Presence::required);
  }
}

OrderedJson progress_value(const std::optional<TaskProgress> &progress) {
  if (!progress) return nullptr;
  OrderedJson losses = OrderedJson::array();
  for (const double loss : progress->losses) losses.push_back(number_value(loss));
  return {{"task_id", progress->task_id},
          {"job_id", progress->job_id},
          {"round", progress->round},
          {"phase", progress->phase},
          {"step", progress->step},
          {"steps", progress->steps},
          {"examples_per_second", number_value(progress->examples_per_second)},
          {"first_loss_step", progress->first_loss_step},
          {"losses", std::move(losses)}};
}

void read_progress(ObjectReader &parent, std::optional<TaskProgress> &out) {
  auto reader = parent.object("progress", Presence::nullable);
  if (!reader) return;
  TaskProgress &progress = out.emplace();
  reader->read_whole("task_id", progress.task_id, kAnyCount, Presence::required);
  reader->read_whole("job_id", progress.job_id, kAnyCount, Presence::required);
  reader->read_whole("round", progress.round, kRoundRange, Presence::required);
  reader->read("phase", progress.phase, kWord, Presence::required);
  reader->read_whole("step", progress.step, kAnyCount, Presence::optional);
  reader->read_whole("steps", progress.steps, kAnyCount, Presence::optional);
  reader->read("examples_per_second", progress.examples_per_second, Presence::optional);
  reader->read_whole("first_loss_step", progress.first_loss_step, kAnyCount, Presence::optional);
  reader->read_numbers("losses", progress.losses, limits::kLossesPerHeartbeatMax, Presence::nullable);
}

}  // namespace

std::string encode(const SessionRequest &request) {
  return write_json({{"protocol_version", request.protocol_version},
                     {"software", request.software},
                     {"instance", request.instance},
                     {"capabilities", capabilities_value(request.capabilities)},
                     {"local_datasets", local_datasets_value(request.local_datasets)}});
}

SessionRequest decode_session_request(std::string_view text) {
  return decode_message<SessionRequest>(
      "session request", text, [](ObjectReader &reader, SessionRequest &request) {
        request.protocol_version = 0;
        reader.read_whole("protocol_version", request.protocol_version, {1, UINT32_MAX}, Presence::required);
        // Other versions may have other fields, and deserve to hear of their version first.
        if (request.protocol_version != kProtocolVersion && request.protocol_version != 0) return;
        reader.read("software", request.software, kWord, Presence::required);
        reader.read("instance", request.instance, kWord, Presence::required);
        read_capabilities(reader, request.capabilities);
        read_local_datasets(reader, request.local_datasets);
      });
}

std::string encode(const SessionGrant &grant) {
  return write_json({{"worker_id", grant.worker_id},
                     {"worker_name", grant.worker_name},
                     {"lease", grant.lease},
                     {"heartbeat_interval_ms", grant.heartbeat_interval.count()},
                     {"lease_duration_ms", grant.lease_duration.count()},
                     {"progress_interval_ms", grant.progress_interval.count()}});
}

SessionGrant decode_session_grant(std::string_view text) {
  return decode_message<SessionGrant>("session grant", text, [](ObjectReader &reader, SessionGrant &grant) {
    reader.read_whole("worker_id", grant.worker_id, core::kIdRange, Presence::required);
    reader.read_name("worker_name", grant.worker_name, Presence::required);
    reader.read_whole("lease", grant.lease, kFromOne, Presence::required);
    read_milliseconds(reader, "heartbeat_interval_ms", grant.heartbeat_interval, Presence::required);
    read_milliseconds(reader, "lease_duration_ms", grant.lease_duration, Presence::required);
    read_milliseconds(reader, "progress_interval_ms", grant.progress_interval, Presence::required);
  });
}

std::string encode(const TaskPoll &poll) {
  return write_json({{"lease", poll.lease}, {"wait_ms", poll.wait.count()}});
}

TaskPoll decode_task_poll(std::string_view text) {
  return decode_message<TaskPoll>("task poll", text, [](ObjectReader &reader, TaskPoll &poll) {
    reader.read_whole("lease", poll.lease, kFromOne, Presence::required);
    read_milliseconds(reader, "wait_ms", poll.wait, Presence::optional);
  });
}

std::string encode(const Report &report) {
  return write_json({{"lease", report.lease},
                     {"task_id", report.task_id},
                     {"job_id", report.job_id},
                     {"round", report.round},
                     {"failure", text::printable(report.failure, limits::kReasonBytesMax)},
                     {"key", report.key},
                     {"sha256", report.sha256},
                     {"bytes", report.bytes},
                     {"num_examples", report.num_examples},
                     {"train_loss", number_value(report.train_loss)},
                     {"received", evaluation_value(report.received)},
                     {"own", evaluation_value(report.own)}});
}

Report decode_report(std::string_view text) {
  return decode_message<Report>("report", text, [](ObjectReader &reader, Report &report) {
    reader.read_whole("lease", report.lease, kFromOne, Presence::required);
    reader.read_whole("task_id", report.task_id, kAnyCount, Presence::required);
    reader.read_whole("job_id", report.job_id, kAnyCount, Presence::required);
    reader.read_whole("round", report.round, kRoundRange, Presence::required);
    reader.read("failure", report.failure, kSentence, Presence::nullable);
    // Nothing else counts of a task that failed.
    const Presence result = report.failure.empty() ? Presence::required : Presence::nullable;
    reader.read_whole("num_examples", report.num_examples, kAnyCount, result);
    reader.read("key", report.key, {.bytes_max = kKeyBytesMax}, Presence::nullable);
    // An evaluation stores nothing; an update has all three.
    const Presence stored = report.key.empty() ? Presence::nullable : Presence::required;
    read_sha256(reader, "sha256", report.sha256, stored);
    reader.read_whole("bytes", report.bytes, kAnyCount, stored);
    reader.read("train_loss", report.train_loss);
    read_evaluation(reader, "received", report.received);
    read_evaluation(reader, "own", report.own);
  });
}

std::string encode(const ReportReceipt &receipt) {
  return write_json({{"accepted", receipt.accepted},
                     {"duplicate", receipt.duplicate},
                     {"code", receipt.code},
                     {"reason", text::printable(receipt.reason, limits::kReasonBytesMax)},
                     {"current_round", receipt.current_round}});
}

ReportReceipt decode_report_receipt(std::string_view text) {
  return decode_message<ReportReceipt>(
      "report receipt", text, [](ObjectReader &reader, ReportReceipt &receipt) {
        reader.read("accepted", receipt.accepted, Presence::required);
        reader.read("duplicate", receipt.duplicate, Presence::optional);
        reader.read("code", receipt.code, kWord, Presence::nullable);
        reader.read("reason", receipt.reason, kSentence, Presence::nullable);
        reader.read_whole("current_round", receipt.current_round, kRoundRange, Presence::optional);
      });
}

std::string encode(const Heartbeat &heartbeat) {
  return write_json({{"lease", heartbeat.lease}, {"progress", progress_value(heartbeat.progress)}});
}

Heartbeat decode_heartbeat(std::string_view text) {
  return decode_message<Heartbeat>("heartbeat", text, [](ObjectReader &reader, Heartbeat &heartbeat) {
    reader.read_whole("lease", heartbeat.lease, kFromOne, Presence::required);
    read_progress(reader, heartbeat.progress);
  });
}

std::string encode(const HeartbeatAnswer &answer) {
  OrderedJson document = OrderedJson::object();
  document["cancelled_tasks"] = answer.cancelled_tasks;
  return write_json(document);
}

HeartbeatAnswer decode_heartbeat_answer(std::string_view text) {
  return decode_message<HeartbeatAnswer>(
      "heartbeat's answer", text, [](ObjectReader &reader, HeartbeatAnswer &answer) {
        reader.read_whole_list("cancelled_tasks", answer.cancelled_tasks, kAnyCount, kCancelledTasksMax,
                               Presence::nullable);
      });
}

std::string encode(const UrlRequest &request) {
  return write_json({{"lease", request.lease}, {"key", request.key}, {"write", request.write}});
}

UrlRequest decode_url_request(std::string_view text) {
  return decode_message<UrlRequest>("URL request", text, [](ObjectReader &reader, UrlRequest &request) {
    reader.read_whole("lease", request.lease, kFromOne, Presence::required);
    reader.read("key", request.key, {.bytes_max = kKeyBytesMax, .bytes_min = 1}, Presence::required);
    reader.read("write", request.write, Presence::optional);
  });
}

std::string encode(const UrlAnswer &answer) {
  OrderedJson document = OrderedJson::object();
  document["url"] = answer.url;
  return write_json(document);
}

UrlAnswer decode_url_answer(std::string_view text) {
  return decode_message<UrlAnswer>("URL answer", text, [](ObjectReader &reader, UrlAnswer &answer) {
    reader.read("url", answer.url, {.bytes_max = kUrlBytesMax, .bytes_min = 1}, Presence::required);
  });
}

}  // namespace parsyn::wire
