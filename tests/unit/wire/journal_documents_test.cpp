// What the journal keeps, written and read back; and what is refused because this parsyn did not write it.
#include "wire/journal_documents.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/errors.hpp"

namespace {

using namespace parsyn;
using namespace parsyn::test;
using namespace parsyn::wire;
using nlohmann::json;

template <typename Document>
Document again(const Document &document) {
  Document read;
  decode_stored(encode_stored(document), read);
  return read;
}

template <typename Document>
Error refusal(const json &text) {
  return error_of([&] {
    Document read;
    decode_stored(text.dump(), read);
  });
}

/// Writing it, changing the number at `where`, and reading it.
template <typename Document>
void check_last(const Document &document, const std::string &where, std::int64_t last) {
  INFO(where);
  json text = json::parse(encode_stored(document));
  const json::json_pointer place(where);
  REQUIRE(text.at(place).is_number_integer());
  text[place] = last;
  Document read;
  decode_stored(text.dump(), read);
  CHECK(json::parse(encode_stored(read)).at(place) == last);
  for (const std::int64_t number : {last + 1, std::int64_t{-1}, std::int64_t{1} << 32, last + 256}) {
    text[place] = number;
    CHECK(refusal<Document>(text).code() == ErrorCode::corrupt_data);
  }
}

}  // namespace

TEST_CASE("an event is written without a change to it, and comes back with the kinds of its values") {
  const Event event{7,        2,
                    1234,     "validation",
                    "a text", {{"round", std::int64_t{3}}, {"loss", -HUGE_VAL}, {"code", std::string("x")}}};
  CHECK(encode_stored(event) ==
        R"({"sequence":7,"job_id":2,"time_ms":1234,"type":"validation","text":"a text","fields":[)"
        R"({"name":"round","whole":3,"number":null,"text":null},)"
        R"({"name":"loss","whole":null,"number":"-Infinity","text":null},)"
        R"({"name":"code","whole":null,"number":null,"text":"x"}]})");
  const Event read = again(event);
  CHECK(read.sequence == 7);
  CHECK(read.job_id == 2);
  CHECK(read.time_ms == 1234);
  CHECK(read.type == event.type);
  CHECK(read.text == event.text);
  CHECK(read.fields == event.fields);
}

TEST_CASE("a series of losses is two columns of one length") {
  const LossSeries series{4, 9, {{1, 0.5}, {3, 0.25}}};
  CHECK(encode_stored(series) == R"({"worker_id":4,"round":9,"steps":[1,3],"losses":[0.5,0.25]})");
  CHECK(again(series).losses == series.losses);
  const Error error = refusal<LossSeries>({{"steps", {1, 2}}, {"losses", {0.5}}});
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, "1 losses for 2 steps"));
}

TEST_CASE("a number that is no value of its enumeration is corrupt data") {
  StoredJob job;
  job.setup.config.distributed.emplace();
  job.dataset.train.emplace();
  check_last(job, "/setup/config/config/optimizer", static_cast<int>(Optimizer::adamw));
  check_last(job, "/setup/config/config/lr_schedule", static_cast<int>(LearningRateSchedule::cosine));
  check_last(job, "/setup/config/config/mixed_precision", static_cast<int>(MixedPrecision::bf16));
  check_last(job, "/setup/config/worker_selection/mode", static_cast<int>(SelectionMode::mixed));
  check_last(job, "/dataset/train/x_dtype", static_cast<int>(Dtype::c64));
  check_last(StoredWorker{}, "/info/kind", static_cast<int>(WorkerKind::parsyn));
  StoredJobState state;
  state.job.round_state = Round::State::open;
  check_last(state, "/job/state", static_cast<int>(JobState::cancelled));
  check_last(state, "/job/round_state", static_cast<int>(Round::State::failed));
  core::SeatSnapshot seat;
  seat.part.emplace();
  check_last(seat, "/part/state", static_cast<int>(ParticipantState::lost));

  // Those are the last ones: what comes next has no name.
  CHECK(optimizer_name(static_cast<Optimizer>(2)) == "unknown");
  CHECK(lr_schedule_name(static_cast<LearningRateSchedule>(3)) == "unknown");
  CHECK(mixed_precision_name(static_cast<MixedPrecision>(2)) == "unknown");
  CHECK(selection_mode_name(static_cast<SelectionMode>(4)) == "unknown");
  CHECK(worker_kind_name(static_cast<WorkerKind>(2)) == "unknown");
  CHECK(job_state_name(static_cast<JobState>(7)) == "unknown");
}

TEST_CASE("what was registered is kept with its request, and without one where an older parsyn wrote it") {
  StoredDataset dataset;
  dataset.info.name = "d";
  CHECK_FALSE(again(dataset).request.has_value());
  dataset.request = StoredRequest{"key", "text"};
  CHECK(again(dataset).request.value().idempotency_key == "key");
  CHECK(again(dataset).request->text == "text");
  CHECK(again(dataset).info.name == "d");

  json older = json::parse(encode_stored(StoredModel{}));
  REQUIRE(older.erase("request") == 1);
  StoredModel model;
  decode_stored(older.dump(), model);
  CHECK_FALSE(model.request.has_value());
}

TEST_CASE("requests are equal when everything that they ask for is") {
  ModelSpec spec;
  spec.name = "m";
  spec.path = "/a";
  const std::string text = request_text(spec);
  spec.cancelled = [] { return false; };  // not asked for
  CHECK(request_text(spec) == text);
  ModelSpec other = spec;
  other.path = "/b";
  CHECK(request_text(other) != text);
  other = spec;
  other.from_round = std::uint32_t{0};
  CHECK(request_text(other) != text);
  other.from_round = BestRound{};
  CHECK(request_text(other) != text);

  DatasetSpec data;
  data.train.emplace().path = "/a";
  const std::string data_text = request_text(data);
  data.split_seed = 1;
  CHECK(request_text(data) != data_text);
  CHECK(request_text(WorkerSpec{"a", WorkerKind::own}) != request_text(WorkerSpec{"a", WorkerKind::parsyn}));
}

TEST_CASE("other damage is corrupt data, with the place in the message") {
  const Error error = refusal<StoredCounters>({{"worker", 1}, {"lease", -1}});
  CHECK(error.code() == ErrorCode::corrupt_data);
  CHECK(mentions(error, "StoredCounters"));
  CHECK(mentions(error, "lease"));
  CHECK(error_of([] {
          StoredClock clock;
          decode_stored("{", clock);
        }).code() == ErrorCode::corrupt_data);
}
