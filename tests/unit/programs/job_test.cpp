// The pure parts of parsyn-job: its event stream, its lines and bars, the documents that it sends.
#include <unistd.h>

#include <string>
#include <vector>

#include "job/commands.hpp"
#include "job/event_parser.hpp"
#include "job/progress_view.hpp"
#include "support/errors.hpp"

using namespace parsyn::programs;
using namespace parsyn::test;

namespace {

struct Collected {
  std::vector<StreamEvent> events;
  EventParser parser{[this](const StreamEvent &event) { events.push_back(event); }};
};

}  // namespace

TEST_CASE("events are the same however the stream is cut") {
  const std::string stream =
      ": hello\n\nid: 1\nevent: a\ndata: x\ndata:y\n\nid: 2\r\ndata: {}\r\n\r\n: still here\n\nid: 3\nevent: "
      "nothing\n\ndata: z\n\n";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    Collected collected;
    for (std::size_t at = 0; at < stream.size(); at += size)
      collected.parser.feed(std::string_view(stream).substr(at, size));
    REQUIRE(collected.events.size() == 3);
    CHECK(collected.events[0].id == "1");
    CHECK(collected.events[0].type == "a");
    CHECK(collected.events[0].data == "x\ny");
    CHECK(collected.events[1].id == "2");
    CHECK(collected.events[1].type == "message");
    CHECK(collected.events[1].data == "{}");
    CHECK(collected.events[2].id == "3");
    CHECK(collected.events[2].type == "message");
  }
}

TEST_CASE("an event that a broken connection left half does not count") {
  Collected collected;
  collected.parser.feed("id: 1\ndata: x\n\nid: 2\ndata: y\n");
  CHECK(collected.parser.last_id() == "1");
  collected.parser.reset();
  collected.parser.feed("id: 2\ndata: y\n\n");
  REQUIRE(collected.events.size() == 2);
  CHECK(collected.events[1].data == "y");
  CHECK(collected.parser.last_id() == "2");
}

TEST_CASE("a finished round is one line, its validation another") {
  const Json record = Json::parse(R"({"round": 3, "train_loss": 0.43214, "examples": 60000, "seconds": 12.34,
      "contributions": [{"state": "valid"}, {"state": "refused"}, {"state": "valid"}]})");
  CHECK(round_line(record, 10) == "round 3/10  train_loss=0.4321  workers=2  examples=60000  12.3 s");
  CHECK(validation_line(Json::parse(R"({"round": 3, "loss": 0.5, "accuracy": 0.85})"), 10) ==
        "round 3/10  validation_loss=0.5000  accuracy=0.8500");
  CHECK(validation_line(Json::parse(R"({"round": 0, "loss": "NaN"})"), 10) ==
        "before round 1  validation_loss=NaN");
  const Json job = Json::parse(
      R"({"round": 10, "num_rounds": 10, "final_validation": {"loss": 0.41, "accuracy": 0.8612, "num_examples": 10000}})");
  CHECK(final_line(job) == "final: round 10/10 validation_loss=0.4100 accuracy=0.8612");
  CHECK(final_line(Json::parse(R"({"round": 10, "final_validation": null})")).empty());
}

TEST_CASE("a worker's bar shows its step, speed and loss, within the terminal's width") {
  WorkerView worker;
  worker.name = "a";
  worker.state = "training";
  worker.phase = "training";
  worker.step = 50;
  worker.steps = 200;
  worker.examples_per_second = 4310.4;
  worker.loss = 0.43214;
  CHECK(bar_line(worker, 3, 200) ==
        "a    training     [=====>              ]  50/200  4310 examples/s  loss 0.4321");
  CHECK(bar_line(worker, 3, 20).size() == 20);
  worker.loss = 1e300;
  CHECK(bar_line(worker, 3, 200).ends_with("loss 1.0000e+300"));
  worker.state = "valid";
  CHECK(bar_line(worker, 1, 200).find("[====================]  200/200") != std::string::npos);
  worker.state = "away";
  CHECK(bar_line(worker, 1, 200).starts_with("a  away "));
}

TEST_CASE("progress events bring the view of a job up to date") {
  JobView view;
  view.take_document(Json::parse(R"({"num_rounds": 2, "round": 1, "workers": [
      {"worker_id": 7, "name": "a\u001b", "state": "training", "phase": "", "step": 0, "steps": 0, "last_loss": null},
      {"worker_id": 9, "name": "b", "state": "standby", "phase": "", "step": 0, "steps": 0, "last_loss": null}]})"));
  view.take_progress(Json::parse(
      R"({"worker_id": 7, "round": 2, "phase": "training", "step": 5, "steps": 10, "examples_per_second": 8.0, "loss": 1.5})"));
  view.take_progress(
      Json::parse(R"({"worker_id": 8, "round": 2, "phase": "training", "step": 5, "steps": 10})"));
  REQUIRE(view.workers().size() == 2);
  CHECK(view.workers().at(7).name == "a");
  CHECK(view.workers().at(7).step == 5);
  CHECK(view.workers().at(7).loss == 1.5);
  CHECK(progress_line(view) == "round 2/2  a 5/10  b standby");
}

TEST_CASE("in a job that has ended no worker does anything") {
  JobView view;
  const auto document = [](const std::string &state) {
    return Json::parse(R"({"num_rounds": 2, "round": 2, "state": ")" + state +
                       R"(", "workers": [{"worker_id": 7, "name": "a", "state": "training", "phase": ""}]})");
  };
  view.take_document(document("running"));
  CHECK(progress_line(view) == "round 2/2  a starting");
  for (const char *over : {"completed", "failed", "stopped", "cancelled"}) {
    view.take_document(document(over));
    CHECK(view.workers().empty());
  }
}

TEST_CASE("a job's document may come through a pipe, and is not read without end") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string pipe = "/dev/fd/" + std::to_string(ends[0]);
  REQUIRE(::write(ends[1], "{\"name\":", 8) == 8);
  REQUIRE(::write(ends[1], "\"x\"}", 4) == 4);
  ::close(ends[1]);
  CHECK(read_document(pipe) == R"({"name":"x"})");
  // What is left of it is nothing.
  CHECK(mentions(error_of([&] { read_document(pipe); }), "no job in it"));
  ::close(ends[0]);
  CHECK(error_of([] { read_document("/dev/zero"); }).code() == parsyn::ErrorCode::too_large);
  CHECK(error_of([] { read_document("/no/such/file"); }).code() == parsyn::ErrorCode::not_found);
  CHECK_THROWS_AS(read_document("/"), parsyn::Error);
}

TEST_CASE("a field is found by its dotted path") {
  const Json document = Json::parse(R"({"a": {"b": [1, {"c": "x"}]}, "n": null})");
  CHECK(value_at(document, "a.b.1.c") == "x");
  CHECK(value_at(document, "a.b.0") == 1);
  CHECK(value_at(document, "a.b.2").is_null());
  CHECK(value_at(document, "a.x").is_null());
  CHECK(text_at(document, "n") == "-");
}

TEST_CASE("documents name files by absolute paths and leave out what was not said") {
  DatasetAdd dataset;
  dataset.name = "d";
  dataset.train = "/data/../data/train.csv";
  dataset.label_column = "class";
  CHECK(
      dataset_document(dataset) ==
      Json::parse(
          R"({"name": "d", "local": false, "train": {"path": "/data/train.csv", "label_column": "class"}})"));
  dataset.train = "train.csv";
  CHECK(value_at(dataset_document(dataset), "train.path").get<std::string>().starts_with("/"));

  ModelAdd model;
  model.name = "m";
  model.kind = "mlp";
  model.sizes = {784, 10};
  CHECK(model_document(model) == Json::parse(R"({"name": "m", "kind": "mlp", "sizes": [784, 10]})"));
  ModelAdd again;
  again.name = "m";
  again.from_job = "4:best";
  CHECK(model_document(again) == Json::parse(R"({"name": "m", "from_job": 4, "from_round": "best"})"));
  again.from_job = "4:3";
  CHECK(model_document(again) == Json::parse(R"({"name": "m", "from_job": 4, "from_round": 3})"));
  again.from_job = "4";
  CHECK(model_document(again) == Json::parse(R"({"name": "m", "from_job": 4})"));
  for (const std::string wrong : {"x", "4:", "4:last", ":3"}) {
    again.from_job = wrong;
    CHECK(parsyn::test::error_of([&] { model_document(again); }).code() ==
          parsyn::ErrorCode::invalid_argument);
  }
}
