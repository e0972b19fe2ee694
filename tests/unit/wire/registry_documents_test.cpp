#include "wire/registry_documents.hpp"

#include <algorithm>
#include <string>

#include "support/catch.hpp"

namespace {

using namespace parsyn;
using namespace parsyn::wire;
using Fields = std::vector<std::string>;

template <typename T>
Fields faults_of(const Parsed<T> &parsed) {
  Fields fields;
  for (const Fault &fault : parsed.faults) fields.push_back(fault.field + " " + fault.code);
  std::sort(fields.begin(), fields.end());
  return fields;
}

Fields worker_faults(const std::string &text) { return faults_of(parse_worker_spec(text)); }
Fields dataset_faults(const std::string &text) { return faults_of(parse_dataset_spec(text)); }
Fields model_faults(const std::string &text) { return faults_of(parse_model_spec(text)); }

}  // namespace

TEST_CASE("a worker is registered with a name and a kind, own by default") {
  const auto own = parse_worker_spec(R"({"name":"w"})");
  REQUIRE(own.faults.empty());
  CHECK(own.value.name == "w");
  CHECK(own.value.kind == WorkerKind::own);
  const auto rented = parse_worker_spec(R"({"name":"w","kind":"parsyn"})");
  REQUIRE(rented.faults.empty());
  CHECK(rented.value.kind == WorkerKind::parsyn);

  CHECK(worker_faults("{}") == Fields{"name required"});
  CHECK(worker_faults(R"({"name":"","kind":"cloud","token":"x"})") ==
        Fields{"kind unknown_value", "name format", "token unknown_field"});
}

TEST_CASE("a dataset's files are read with their formats") {
  const auto parsed =
      parse_dataset_spec(R"({"name":"d","train":{"path":"/data/train.csv","format":"csv","label_column":"y"},
      "validation":{"path":"/data/t10k-images-idx3-ubyte","labels_path":"/data/labels","format":"idx"}})");
  REQUIRE(parsed.faults.empty());
  CHECK_FALSE(parsed.value.local);
  CHECK(parsed.value.train.value().path == "/data/train.csv");
  CHECK(parsed.value.train->format == DatasetFormat::csv);
  CHECK(parsed.value.train->label_column == "y");
  CHECK(parsed.value.validation.value().labels_path == "/data/labels");
  CHECK(parsed.value.validation->format == DatasetFormat::idx);

  const auto split = parse_dataset_spec(
      R"({"name":"d","train":{"path":"a.jsonl"},"validation":null,"validation_fraction":0.25,"split_seed":9})");
  REQUIRE(split.faults.empty());
  CHECK(split.value.train->format == DatasetFormat::detect);
  CHECK(split.value.validation_fraction == 0.25);
  CHECK(split.value.split_seed == 9);
  CHECK_FALSE(split.value.validation.has_value());
}

TEST_CASE("a dataset needs a training file unless it is local, and then must have none") {
  CHECK(dataset_faults(R"({"name":"d"})") == Fields{"train required"});
  CHECK(dataset_faults(R"({"name":"d","local":true})").empty());
  CHECK(dataset_faults(R"({"name":"d","local":true,"validation":{"path":"v.csv"}})").empty());
  CHECK(dataset_faults(R"({"name":"d","local":true,"train":{"path":"t.csv"}})") ==
        Fields{"train contradiction"});
  CHECK(dataset_faults(R"({"name":"d","local":true,"validation_fraction":0.1})") ==
        Fields{"validation_fraction contradiction"});
  CHECK(dataset_faults(R"({"name":"d","local":1})") == Fields{"local type"});
}

TEST_CASE("all faults of a dataset are told at once") {
  CHECK(
      dataset_faults(
          R"({"train":{"format":"png","size":3},"validation":[],"validation_fraction":1,"split_seed":-1})") ==
      Fields{"name required", "split_seed range", "train.format unknown_value", "train.path required",
             "train.size unknown_field", "validation type", "validation_fraction range"});
  CHECK(dataset_faults(
            R"({"name":"d","train":{"path":"t"},"validation":{"path":"v"},"validation_fraction":0.1})") ==
        Fields{"validation_fraction contradiction"});
  CHECK(dataset_faults(R"({"name":"d","train":{"path":"t","format":"csv","labels_path":"l"}})") ==
        Fields{"train.labels_path contradiction"});
  CHECK(dataset_faults(R"({"name":"d","train":{"path":"t","format":"idx","label_column":"l"}})") ==
        Fields{"train.label_column contradiction"});
}

TEST_CASE("a path has no NUL, is not empty and not endless") {
  CHECK(dataset_faults(R"({"name":"d","train":{"path":"/etc/passwd\u0000.csv"}})") ==
        Fields{"train.path format"});
  CHECK(dataset_faults(R"({"name":"d","train":{"path":""}})") == Fields{"train.path format"});
  CHECK(dataset_faults(R"({"name":"d","train":{"path":")" + std::string(kPathBytesMax + 1, 'a') + "\"}}") ==
        Fields{"train.path format"});
}

TEST_CASE("each kind of model asks for what it needs and refuses what means nothing to it") {
  const auto mlp =
      parse_model_spec(R"({"name":"m","kind":"mlp","sizes":[784,200,10],"activation":"tanh","loss":"mse"})");
  REQUIRE(mlp.faults.empty());
  CHECK(mlp.value.description.kind == "mlp");
  CHECK(mlp.value.description.sizes == std::vector<std::uint64_t>{784, 200, 10});
  CHECK(mlp.value.description.activation == "tanh");
  CHECK(mlp.value.description.loss == "mse");

  const auto module = parse_model_spec(R"({"name":"m","kind":"torchscript","path":"/m.pt"})");
  REQUIRE(module.faults.empty());
  CHECK(module.value.path == "/m.pt");
  CHECK(module.value.description.loss == "cross_entropy");

  CHECK(model_faults("{}") == Fields{"kind required", "name required"});
  CHECK(model_faults(R"({"name":"m","kind":"mlp"})") == Fields{"sizes required"});
  CHECK(model_faults(R"({"name":"m","kind":"mlp","sizes":[5]})") == Fields{"sizes range"});
  CHECK(model_faults(R"({"name":"m","kind":"mlp","sizes":[5,0,2.5,16777217]})") ==
        Fields{"sizes[1] range", "sizes[2] type", "sizes[3] range"});
  CHECK(model_faults(R"({"name":"m","kind":"mlp","sizes":[5,2],"path":"/x"})") ==
        Fields{"path contradiction"});
  CHECK(model_faults(R"({"name":"m","kind":"torchscript"})") == Fields{"path required"});
  CHECK(model_faults(R"({"name":"m","kind":"torchscript","path":"/m.pt","sizes":[1,2]})") ==
        Fields{"sizes contradiction"});
  CHECK(model_faults(R"({"name":"m","kind":"custom"})") == Fields{"path required"});
  CHECK(model_faults(R"({"name":"m","kind":"llama","activation":"swish","loss":"l1","path":"/x"})") ==
        Fields{"activation unknown_value", "kind unknown_value", "loss unknown_value"});
}

TEST_CASE("a model may start from a job's result, after a round, the best one, or the last") {
  const auto at = [](const std::string &round) {
    const auto parsed = parse_model_spec(R"({"name":"m","from_job":3,"from_round":)" + round + "}");
    REQUIRE(parsed.faults.empty());
    CHECK(parsed.value.from_job == std::optional<Id>(3));
    return parsed.value.from_round;
  };
  CHECK(std::get<std::uint32_t>(at("0")) == 0);
  CHECK(std::get<std::uint32_t>(at("12")) == 12);
  CHECK(std::holds_alternative<BestRound>(at("\"best\"")));
  CHECK(std::holds_alternative<std::monostate>(at("null")));
  CHECK(std::holds_alternative<std::monostate>(
      parse_model_spec(R"({"name":"m","from_job":3})").value.from_round));

  CHECK(model_faults(R"({"name":"m","from_job":3,"from_round":"last"})") ==
        Fields{"from_round unknown_value"});
  CHECK(model_faults(R"({"name":"m","from_job":3,"from_round":-1})") == Fields{"from_round range"});
  CHECK(model_faults(R"({"name":"m","from_job":0})") == Fields{"from_job range"});
  CHECK(model_faults(R"({"name":"m","from_job":3,"kind":"mlp","sizes":[1,2]})") ==
        Fields{"kind contradiction", "sizes contradiction"});
  CHECK(model_faults(R"({"name":"m","kind":"mlp","sizes":[1,2],"from_round":1})") ==
        Fields{"from_round contradiction"});
}

TEST_CASE("the round of a query is a number, best, or empty for the last") {
  CHECK(std::get<std::uint32_t>(parse_round_choice("7").value()) == 7);
  CHECK(std::holds_alternative<BestRound>(parse_round_choice("best").value()));
  CHECK(std::holds_alternative<std::monostate>(parse_round_choice("").value()));
  for (const char *text : {"-1", "7x", " 7", "1.0", "Best", "99999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_round_choice(text).has_value());
  }
}
