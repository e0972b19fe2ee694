// The REST API over a real socket, against its own OpenAPI document.
#include <algorithm>
#include <atomic>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "http/http_client.hpp"
#include "parsyn/http.hpp"
#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/loopback_serving.hpp"
#include "support/small_job.hpp"
#include "support/temporary_folder.hpp"

using namespace parsyn;
using namespace parsyn::test;
using nlohmann::json;

namespace {

class Api {
 public:
  explicit Api(const CoordinatorOptions &with = {}) : small(constant(0), 12, with) {
    server_.emplace(*small.coordinator, loopback_serving());
  }

  http::HttpClientResponse send(const std::string &method, const std::string &path,
                                const std::string &body = {}, http::Headers headers = {},
                                const std::string &token = kOperatorToken) {
    http::HttpClientRequest request;
    request.method = method;
    request.url = server_->url() + path;
    request.body = body;
    request.headers = std::move(headers);
    if (!token.empty()) request.headers["Authorization"] = "Bearer " + token;
    return client_.perform(request);
  }
  json get(const std::string &path) { return json::parse(send("GET", path).body); }
  std::string url() const { return server_->url(); }
  void stop() { server_->stop(); }

  SmallJob small;

 private:
  std::optional<CoordinatorServer> server_;
  http::HttpClient client_;
};

/// A store that takes nothing of a dataset before it is let go.
class HeldStore final : public ObjectStore {
 public:
  std::unique_ptr<ObjectWriter> create(std::string_view key) override {
    auto writer = inner_->create(key);
    if (key.find("/train") == std::string_view::npos || !holds) return writer;
    return std::make_unique<HeldWriter>(std::move(writer), *this);
  }
  std::unique_ptr<ByteSource> open(std::string_view key) const override { return inner_->open(key); }
  ObjectInfo stat(std::string_view key) const override { return inner_->stat(key); }
  std::vector<std::string> list(std::string_view prefix) const override { return inner_->list(prefix); }
  void remove(std::string_view key) override { inner_->remove(key); }

  std::atomic<bool> holds{false};
  Gate gate;

 private:
  class HeldWriter final : public ObjectWriter {
   public:
    HeldWriter(std::unique_ptr<ObjectWriter> writer, HeldStore &store)
        : writer_(std::move(writer)), store_(store) {}
    void write(std::span<const std::byte> bytes) override {
      store_.gate.wait();
      writer_->write(bytes);
    }
    ObjectInfo commit() override { return writer_->commit(); }

   private:
    std::unique_ptr<ObjectWriter> writer_;
    HeldStore &store_;
  };

  std::shared_ptr<ObjectStore> inner_ = make_memory_store();
};

json job_body(const Api &api) {
  return {
      {"name", "rest"},
      {"dataset_id", api.small.dataset},
      {"model_id", api.small.model},
      {"distributed", {{"num_rounds", 2}, {"steps_per_round", 3}, {"min_workers", 1}, {"max_workers", 1}}}};
}

/// The schema that a "$ref" names, with those of "allOf" merged.
json resolve(const json &document, const json &schema) {
  if (schema.contains("$ref"))
    return resolve(document, document.at(json::json_pointer(schema.at("$ref").get<std::string>().substr(1))));
  if (!schema.contains("allOf")) return schema;
  json merged = schema;
  for (const json &part : schema.at("allOf")) merged.update(resolve(document, part), true);
  return merged;
}

}  // namespace

TEST_CASE("every operation of the OpenAPI document is served, and asks for a token where it says so") {
  Api api;
  const json document = api.get("/api/v1/openapi.json");
  int operations = 0;
  for (const auto &[path, item] : document.at("paths").items()) {
    std::string concrete = path;
    for (std::size_t brace; (brace = concrete.find('{')) != std::string::npos;)
      concrete.replace(brace, concrete.find('}') - brace + 1, "1");
    for (const auto &[method, operation] : item.items()) {
      if (method == "parameters") continue;
      std::string verb = method;
      std::transform(verb.begin(), verb.end(), verb.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      INFO(verb << " " << concrete);
      const auto answer = api.send(verb, concrete, "", {}, "");
      const int status = answer.status;
      const bool open = path == "/healthz" || path == "/readyz";
      const bool is_signed = path.find("/objects/") != std::string::npos;
      CHECK(status == (open ? 200 : is_signed ? 403 : 401));
      CHECK(answer.headers.contains("WWW-Authenticate") == (status == 401));
      if (status == 401) CHECK(answer.headers.at("WWW-Authenticate") == "Bearer");
      ++operations;
    }
  }
  CHECK(operations > 20);
  CHECK(api.send("GET", "/api/v1/no-such-thing").status == 404);
  CHECK(api.send("PATCH", "/api/v1/workers").status == 405);
}

TEST_CASE("a worker's token opens nothing of the operator's, and the other way round") {
  Api api;
  const std::string worker = api.small.coordinator->add_worker({"w", WorkerKind::own}).token;
  CHECK(api.send("GET", "/api/v1/training-jobs", "", {}, worker).status == 401);
  CHECK(api.send("POST", "/api/v1/worker/session", "{}").status == 401);
  CHECK(api.send("GET", "/api/v1/training-jobs", "", {}, "operator-tokem").status == 401);
}

TEST_CASE("a job is created, run, watched and downloaded over REST") {
  Api api;
  const auto credentials =
      json::parse(api.send("POST", "/api/v1/workers", R"({"name": "w", "kind": "own"})").body);
  CHECK(credentials.at("id") == 1);
  const auto factory = std::make_shared<CountingFactory>();
  WorkerOptions options;
  HttpTransportOptions transport;
  transport.url = api.url();
  transport.token = credentials.at("token").get<std::string>();
  options.transport = make_http_transport(transport);
  options.trainer_factory = factory;
  Worker worker(std::move(options));

  const auto created =
      api.send("POST", "/api/v1/training-jobs", job_body(api).dump(), {{"Content-Type", "application/json"}});
  REQUIRE(created.status == 201);
  const json job = json::parse(created.body);
  const std::string path = "/api/v1/training-jobs/" + std::to_string(job.at("id").get<int>());
  CHECK(created.headers.at("Location") == path);
  CHECK(job.at("distributed").at("fault_tolerance") == 1);
  CHECK(job.at("seed").is_number_unsigned());

  // The stream ends with the job; asked again from the middle, it goes on behind.
  const auto stream = api.send("GET", path + "/events");
  CHECK(stream.headers.at("Content-Type") == "text/event-stream");
  CHECK(stream.body.find("event: round_completed") != std::string::npos);
  CHECK(stream.body.find("event: job_completed") != std::string::npos);
  const auto rest = api.send("GET", path + "/events", "", {{"Last-Event-ID", "3"}});
  CHECK(rest.body.find("id: 3\n") == std::string::npos);
  CHECK(rest.body.rfind("id: 4\n", 0) == 0);

  const json status = api.get(path);
  CHECK(status.at("state") == "completed");
  CHECK(status.at("rounds").size() == 2);
  CHECK(status.at("workers").at(0).at("worker_id") == 1);
  const json losses = api.get(path + "/losses?round=1");
  CHECK(losses.at("items").at(0).at("losses").size() == 3);
  CHECK(losses.at("next").is_null());
  const json first_page = api.get(path + "/losses?limit=1");
  CHECK(first_page.at("items").at(0).at("round") == 1);
  CHECK(first_page.at("next") == "1-1");
  const json second_page = api.get(path + "/losses?limit=1&after=1-1");
  CHECK(second_page.at("items").at(0).at("round") == 2);
  CHECK(second_page.at("next").is_null());
  CHECK(api.get(path + "/losses").at("items").size() == 2);
  for (const char *query : {"?after=x", "?after=", "?limit=0", "?limit=501"})
    CHECK(api.send("GET", path + "/losses" + query).status == 400);
  const auto model = api.send("GET", path + "/model");
  CHECK(model.sha256 == status.at("rounds").at(1).at("model_sha256").get<std::string>());
  CHECK(model.headers.at("X-Content-SHA256") == model.sha256);
  CHECK(model.headers.at("X-Parsyn-Round") == "2");
  CHECK(api.send("GET", path + "/model?round=1").headers.at("X-Parsyn-Round") == "1");
  CHECK(api.send("GET", path + "/model?round=0").headers.at("X-Parsyn-Round") == "0");
  CHECK(api.send("GET", path + "/model?round=1").sha256 ==
        status.at("rounds").at(0).at("model_sha256").get<std::string>());
  CHECK(api.send("GET", path + "/model?round=7").status == 404);
  for (const char *round : {"?round=x", "?round=", "?round"}) {
    CHECK(api.send("GET", path + "/model" + round).status == 400);
    CHECK(api.send("GET", path + "/losses" + round).status == 400);
  }
  CHECK(api.send("GET", path + "/model", "", {{"Range", "bytes=0-7"}}).body == model.body.substr(0, 8));
  CHECK(api.send("POST", path + "/stop").status == 409);
  CHECK(api.send("POST", path + "/cancel").status == 409);

  // What is answered has the fields that the document promises, and no others.
  const json document = api.get("/api/v1/openapi.json");
  const json schema = resolve(document, document.at("paths")
                                            .at("/api/v1/training-jobs/{id}")
                                            .at("get")
                                            .at("responses")
                                            .at("200")
                                            .at("content")
                                            .at("application/json")
                                            .at("schema"));
  std::set<std::string> promised;
  std::set<std::string> answered;
  for (const auto &[name, value] : schema.at("properties").items()) promised.insert(name);
  for (const auto &[name, value] : status.items()) answered.insert(name);
  CHECK(answered == promised);
}

TEST_CASE("all faults of a job are told in one answer, those of the text and those against the registry") {
  Api api;
  const auto answer = api.send(
      "POST", "/api/v1/training-jobs",
      R"({"name": "", "dataset_id": 99, "model_id": 1, "colour": 1, "config": {"batch_size": 0, "use_peft": true},
                                   "distributed": {"min_workers": 3, "max_workers": 2}, "worker_selection": {"mode": "own", "worker_ids": [5]}})");
  CHECK(answer.status == 400);
  CHECK(answer.headers.at("Content-Type") == "application/problem+json");
  const json problem = json::parse(answer.body);
  CHECK(problem.at("code") == "invalid_argument");
  std::set<std::string> fields;
  for (const json &fault : problem.at("errors")) fields.insert(fault.at("field").get<std::string>());
  for (const char *field :
       {"name", "dataset_id", "colour", "config.batch_size", "worker_selection.worker_ids[0]"}) {
    INFO(field);
    CHECK(fields.contains(field));
  }
  CHECK((fields.contains("distributed.min_workers") || fields.contains("distributed.max_workers")));
  CHECK(api.get("/api/v1/training-jobs").at("items").empty());
}

TEST_CASE("a fault of the text hides none against the registry, whatever its code is") {
  Api api;
  const auto faults_of = [&](json body) {
    const auto answer = api.send("POST", "/api/v1/training-jobs", body.dump());
    CHECK(answer.status == 400);
    const json problem = json::parse(answer.body);
    std::set<std::string> faults;
    for (const json &fault : problem.at("errors"))
      faults.insert(fault.at("field").get<std::string>() + " " + fault.at("code").get<std::string>());
    return faults;
  };
  using Faults = std::set<std::string>;
  // Its targets are numbers: there are no classes to divide by.
  json body = job_body(api);
  body["distributed"]["partitioning"] = {{"kind", "dirichlet"}};
  const Faults skewed{"distributed.partitioning.kind contradiction"};
  CHECK(faults_of(body) == skewed);
  body["colour"] = 1;
  CHECK(faults_of(body) == Faults{"colour unknown_field", "distributed.partitioning.kind contradiction"});
  // One that is wrong by itself is told once.
  body["distributed"]["partitioning"]["kind"] = "odd";
  CHECK(faults_of(body) == Faults{"colour unknown_field", "distributed.partitioning.kind unknown_value"});

  // Of what could not be read nothing is compared: 13 workers would be too many for 12 examples.
  body = job_body(api);
  body["colour"] = 1;
  body["distributed"]["min_workers"] = 13;
  body["distributed"]["max_workers"] = 13;
  CHECK(faults_of(body) == Faults{"colour unknown_field", "dataset_id too_few_examples"});
  body["worker_selection"] = {{"mode", 7}};
  CHECK(faults_of(body) == Faults{"colour unknown_field", "worker_selection.mode type"});
}

TEST_CASE("the error of docs/rest.md is the one that is answered") {
  Api api;
  api.send("POST", "/api/v1/workers", R"({"name": "w", "kind": "own"})");
  json body = job_body(api);
  body["distributed"]["min_workers"] = 0;
  body["worker_selection"] = {{"mode", "own"}, {"worker_ids", {1, 3}}};
  const auto answer = api.send("POST", "/api/v1/training-jobs", body.dump());
  CHECK(answer.status == 400);
  std::ifstream guide(std::string(PARSYN_TEST_DATA) + "/../docs/rest.md");
  const std::string text{std::istreambuf_iterator<char>(guide), std::istreambuf_iterator<char>()};
  const std::size_t begin = text.find("```json\n");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find("```", begin + 8);
  CHECK(json::parse(answer.body) == json::parse(text.substr(begin + 8, end - begin - 8)));
}

TEST_CASE("fault 127: whatever is wrong with a body is a 400, and nothing is created") {
  Api api;
  const std::string good = job_body(api).dump();
  for (const std::string &body : {std::string(), std::string("null"), std::string("[]"), std::string("{"),
                                  std::string(100'000, '['), good + "x"}) {
    CHECK(api.send("POST", "/api/v1/training-jobs", body).status == 400);
  }
  CHECK(api.send("POST", "/api/v1/training-jobs", good, {{"Content-Type", "text/xml"}}).status == 400);
  for (const char *field : {"name", "dataset_id", "model_id"}) {
    json body = job_body(api);
    body.erase(field);
    const auto answer = api.send("POST", "/api/v1/training-jobs", body.dump());
    CHECK(answer.status == 400);
    CHECK(answer.body.find(field) != std::string::npos);
  }
  CHECK(api.get("/api/v1/training-jobs").at("items").empty());
}

TEST_CASE("a compressed body is refused as such, not as bad JSON") {
  Api api;
  const std::string worker = api.small.coordinator->add_worker({"w", WorkerKind::own}).token;
  for (const char *coding : {"gzip", "GZIP", "deflate", "identity, br"}) {
    INFO(coding);
    const http::Headers headers{{"Content-Encoding", coding}, {"Content-Type", "application/json"}};
    for (const auto &answer : {api.send("POST", "/api/v1/training-jobs", job_body(api).dump(), headers),
                               api.send("POST", "/api/v1/worker/session", "{}", headers, worker)}) {
      CHECK(answer.status == 415);
      CHECK(answer.headers.at("Accept-Encoding") == "identity");
      CHECK(json::parse(answer.body).at("code") == "unsupported");
      CHECK(answer.body.find("Content-Encoding") != std::string::npos);
    }
  }
  CHECK(api.get("/api/v1/training-jobs").at("items").empty());
  CHECK(api.send("POST", "/api/v1/training-jobs", job_body(api).dump(), {{"Content-Encoding", "Identity"}})
            .status == 201);
}

TEST_CASE("the same idempotency key gives the same job, and another job under it is refused") {
  Api api;
  const http::Headers key{{"Idempotency-Key", "k1"}, {"Content-Type", "application/json"}};
  const json first = json::parse(api.send("POST", "/api/v1/training-jobs", job_body(api).dump(), key).body);
  const json second = json::parse(api.send("POST", "/api/v1/training-jobs", job_body(api).dump(), key).body);
  CHECK(first.at("id") == second.at("id"));
  json other = job_body(api);
  other["name"] = "another";
  CHECK(api.send("POST", "/api/v1/training-jobs", other.dump(), key).status == 409);
}

TEST_CASE("datasets, models and workers take an idempotency key") {
  Api api;
  const TemporaryFolder folder;
  const http::Headers key{{"Idempotency-Key", "k1"}, {"Content-Type", "application/json"}};
  const std::string file = folder.file("data.csv", "a,label\n1,0\n2,1\n").string();
  const auto check_once = [&](const std::string &path, const json &body, const json &other) {
    INFO(path);
    const auto first = api.send("POST", path, body.dump(), key);
    REQUIRE(first.status == 201);
    const auto second = api.send("POST", path, body.dump(), key);
    CHECK(second.status == 201);
    CHECK(second.body == first.body);
    CHECK(second.headers.at("Location") == first.headers.at("Location"));
    CHECK(api.send("POST", path, other.dump(), key).status == 409);
  };
  check_once("/api/v1/datasets", {{"name", "d"}, {"train", {{"path", file}}}},
             {{"name", "e"}, {"train", {{"path", file}}}});
  check_once("/api/v1/models", {{"name", "m"}, {"kind", "mlp"}, {"sizes", {1, 1}}},
             {{"name", "m"}, {"kind", "mlp"}, {"sizes", {1, 2}}});

  const std::string worker = R"({"name": "w", "kind": "own"})";
  const auto made = api.send("POST", "/api/v1/workers", worker, key);
  REQUIRE(made.status == 201);
  const auto again = api.send("POST", "/api/v1/workers", worker, key);
  CHECK(again.status == 409);
  CHECK(again.body.find(json::parse(made.body).at("token").get<std::string>()) == std::string::npos);
  CHECK(api.get("/api/v1/workers").at("items").size() == 1);
  for (const char *path : {"/api/v1/workers", "/api/v1/datasets", "/api/v1/models"}) {
    CHECK(api.send("POST", path, worker, {{"Idempotency-Key", std::string(201, 'k')}}).status == 400);
  }
}

TEST_CASE("a server that stops ends the registration of a large dataset, and keeps nothing of it") {
  const auto store = std::make_shared<HeldStore>();
  CoordinatorOptions options;
  options.store = store;
  Api api(options);
  const auto before = store->list("");
  store->holds = true;
  const TemporaryFolder folder;
  MemorySink file;
  write_safetensors(few_examples(6'000'000).to_state_dict(), file);
  const std::string path = folder
                               .file("data.safetensors", {reinterpret_cast<const char *>(file.bytes().data()),
                                                          file.bytes().size()})
                               .string();
  std::thread client([&] {
    const json body{{"name", "large"}, {"train", {{"path", path}}}};
    CHECK_THROWS_AS(api.send("POST", "/api/v1/datasets", body.dump()), Error);
  });
  CHECK(store->gate.reached());
  std::thread stopping([&] { api.stop(); });
  client.join();  // its connection is closed: the server waits for the handler only
  store->gate.open();
  stopping.join();
  CHECK(api.small.coordinator->datasets().size() == 1);
  CHECK(store->list("") == before);
}

TEST_CASE("an idempotency key that is too long or no printable ASCII is refused, and creates nothing") {
  Api api;
  for (const std::string &key : {std::string(201, 'k'), std::string("\xff\xfe")}) {
    const http::Headers headers{{"Idempotency-Key", key}, {"Content-Type", "application/json"}};
    const auto answer = api.send("POST", "/api/v1/training-jobs", job_body(api).dump(), headers);
    CHECK(answer.status == 400);
    CHECK(answer.body.find("Idempotency-Key") != std::string::npos);
  }
  CHECK(api.get("/api/v1/training-jobs").at("items").empty());
}

TEST_CASE("an id has one way to be written") {
  Api api;
  api.send("POST", "/api/v1/workers", R"({"name": "w", "kind": "own"})");
  CHECK(api.send("GET", "/api/v1/workers/1").status == 200);
  for (const char *id : {"01", "+1", "1.0", "0x1", "%201"}) {
    INFO(id);
    CHECK(api.send("GET", std::string("/api/v1/workers/") + id).status == 404);
    CHECK(api.send("DELETE", std::string("/api/v1/workers/") + id).status == 404);
  }
  CHECK(api.get("/api/v1/workers").at("items").size() == 1);
}

TEST_CASE("lists are paged") {
  Api api;
  for (int i = 0; i < 5; ++i) api.send("POST", "/api/v1/workers", R"({"name": "w", "kind": "parsyn"})");
  const json first = api.get("/api/v1/workers?limit=2");
  CHECK(first.at("items").size() == 2);
  const json second = api.get("/api/v1/workers?limit=2&after=" + std::to_string(first.at("next").get<int>()));
  CHECK(second.at("items").at(0).at("id") == 3);
  const json last = api.get("/api/v1/workers?limit=2&after=4");
  CHECK(last.at("items").size() == 1);
  CHECK(last.at("next").is_null());
  CHECK(api.send("GET", "/api/v1/workers?limit=0").status == 400);
  CHECK(api.send("GET", "/api/v1/workers?lmit=2").status == 400);
}

TEST_CASE("a removed worker's token opens nothing") {
  Api api;
  const json worker =
      json::parse(api.send("POST", "/api/v1/workers", R"({"name": "w", "kind": "own"})").body);
  CHECK(api.send("DELETE", "/api/v1/workers/1").status == 204);
  CHECK(api.send("GET", "/api/v1/workers/1").status == 404);
  CHECK(api.send("POST", "/api/v1/worker/session", "{}", {}, worker.at("token").get<std::string>()).status ==
        401);
}

TEST_CASE("fault 87: names and paths do not become keys") {
  Api api;
  for (const char *name : {"../x", "%2e%2e%2fx", "..\\\\x", "x#/../../y", "/etc/passwd"}) {
    json body = job_body(api);
    body["name"] = name;
    const auto answer = api.send("POST", "/api/v1/training-jobs", body.dump());
    CHECK(answer.status == 201);
    for (const std::string &key : api.small.coordinator->store().list(""))
      CHECK(key.find("..") == std::string::npos);
  }
  json body = job_body(api);
  body["name"] = std::string("nul\0l", 5);
  CHECK(api.send("POST", "/api/v1/training-jobs", body.dump()).status == 400);
  CHECK(api.send("GET", "/api/v1/objects/../../etc/passwd").status >= 400);
  CHECK(api.send("GET", "/api/v1/objects/%2e%2e/%2e%2e/etc/passwd").status >= 400);
}

TEST_CASE("a server whose operator token can be guessed is refused") {
  SmallJob small;
  ServeOptions options = loopback_serving();
  options.operator_token = std::string(limits::kOperatorTokenBytesMin - 1, 't');
  const Error error = error_of([&] { CoordinatorServer(*small.coordinator, options); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(mentions(error, "can be guessed"));
}
