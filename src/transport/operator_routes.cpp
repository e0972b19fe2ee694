// The operator's REST API: training-jobs, workers, datasets, models.
#include <algorithm>

#include "parsyn/error.hpp"
#include "system/sha256.hpp"
#include "text/encoding.hpp"
#include "text/utf8.hpp"
#include "transport/paths.hpp"
#include "transport/routes.hpp"
#include "wire/job_document.hpp"
#include "wire/openapi.hpp"
#include "wire/parsed.hpp"
#include "wire/registry_documents.hpp"
#include "wire/resource_json.hpp"

namespace parsyn::transport {
namespace {

constexpr char kJobs[] = "/api/v1/training-jobs";
constexpr char kWorkers[] = "/api/v1/workers";
constexpr char kDatasets[] = "/api/v1/datasets";
constexpr char kModels[] = "/api/v1/models";

using Answer = std::function<HttpResponse(const HttpRequest &)>;
using LongAnswer = std::function<HttpResponse(const HttpRequest &, const CancelQuery &cancelled)>;

[[noreturn]] void refuse_query(const std::string &name, const std::string &message) {
  throw Error(ErrorCode::invalid_argument, "the query parameter " + name + " " + message,
              {{name, "range", message}});
}

std::uint64_t number_in(const HttpRequest &request, const std::string &name, std::uint64_t absent,
                        std::uint64_t max) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return absent;
  const auto value = text::parse_u64(found->second);
  if (!value || *value > max) refuse_query(name, "must be a whole number of at most " + std::to_string(max));
  return *value;
}

Id id_in(const HttpRequest &request) {
  const std::string &text = request.parameters.at(0);
  const auto id = text::parse_u64(text);
  // One resource has one path: 01 is not another name of 1.
  if (!id || text != std::to_string(*id))
    throw Error(ErrorCode::not_found,
                "ids are whole numbers; there is nothing named " + text::printable(text, 100));
  return *id;
}

/// Empty: none. It is kept with the job, so it must be short, and text whatever its bytes are read as.
std::string idempotency_key_in(const HttpRequest &request) {
  std::string key = request.header("Idempotency-Key");
  const bool printable = std::ranges::all_of(key, [](char c) { return c >= ' ' && c <= '~'; });
  if (key.size() > limits::kNameBytesMax || !printable) {
    const std::string message =
        "must be at most " + std::to_string(limits::kNameBytesMax) + " printable ASCII characters";
    throw Error(ErrorCode::invalid_argument, "the Idempotency-Key " + message,
                {{"Idempotency-Key", "format", message}});
  }
  return key;
}

void expect_query(const HttpRequest &request, std::initializer_list<std::string_view> known) {
  for (const auto &[name, value] : request.query) {
    if (std::ranges::find(known, name) == known.end())
      refuse_query(text::printable(name, 100), "is not known here");
  }
}

std::uint64_t limit_in(const HttpRequest &request, std::uint64_t absent) {
  const std::uint64_t limit = number_in(request, "limit", absent, limits::kPageSizeMax);
  if (limit == 0) refuse_query("limit", "must be at least 1");
  return limit;
}

struct Page {
  std::uint64_t after;
  std::uint64_t limit;
};
Page page_in(const HttpRequest &request) {
  expect_query(request, {"after", "limit"});
  return {number_in(request, "after", 0, UINT64_MAX), limit_in(request, limits::kPageSizeDefault)};
}

LossPlace loss_place_in(const HttpRequest &request) {
  const auto found = request.query.find("after");
  if (found == request.query.end()) return {};
  const auto place = wire::parse_loss_place(found->second);
  if (!place) refuse_query("after", "must be the next of a page");
  return *place;
}

/// A page of items that are there in id order.
template <typename Item, typename Json>
HttpResponse list_response(const HttpRequest &request, const std::vector<Item> &items, const Json &json) {
  const Page page = page_in(request);
  std::vector<std::string> texts;
  std::optional<std::uint64_t> next;
  Id last = 0;
  for (const Item &item : items) {
    if (item.id <= page.after) continue;
    if (texts.size() == page.limit) {
      next = last;
      break;
    }
    texts.push_back(json(item));
    last = item.id;
  }
  return json_response(200, wire::list_json(texts, next));
}

HttpResponse created(const std::string &collection, Id id, std::string body) {
  HttpResponse response = json_response(201, std::move(body));
  response.headers["Location"] = collection + "/" + std::to_string(id);
  return response;
}

class OperatorRoutes {
 public:
  OperatorRoutes(Coordinator &coordinator, EventStreams &streams, const std::string &operator_token)
      : coordinator_(coordinator), streams_(streams), token_sha256_(system::sha256_hex(operator_token)) {}

  std::vector<Route> all() {
    add("GET", "/api/v1/openapi.json",
        [](const HttpRequest &) { return json_response(200, std::string(wire::openapi_document())); });
    add_jobs();
    add_registry();
    return std::move(routes_);
  }

 private:
  void add_jobs() {
    Coordinator &coordinator = coordinator_;
    const std::string one = std::string(kJobs) + "/{id}";
    add("POST", kJobs, [&coordinator](const HttpRequest &request) {
      expect_json(request);
      wire::Parsed<JobConfig> parsed = wire::parse_job(request.body);
      const auto seen = [&](const Fault &fault) {
        return std::ranges::any_of(parsed.faults,
                                   [&](const Fault &other) { return other.field == fault.field; });
      };
      // All faults in one answer: those of the text, and of what could be read, those against the registry.
      if (!parsed.faults.empty()) {
        for (Fault &fault : coordinator.check_registry(parsed.value, parsed.unread)) {
          if (!seen(fault)) parsed.faults.push_back(std::move(fault));
        }
      }
      const JobStatus job = coordinator.submit(wire::value_or_throw(std::move(parsed), "training job"),
                                               idempotency_key_in(request));
      return created(kJobs, job.id, wire::job_json(job));
    });
    add("GET", kJobs, [&coordinator](const HttpRequest &request) {
      const Page page = page_in(request);
      return list_response(request, coordinator.jobs(page.after, page.limit + 1), wire::job_summary_json);
    });
    add("GET", one, [&coordinator](const HttpRequest &request) {
      return json_response(200, wire::job_json(coordinator.job(id_in(request))));
    });
    add("POST", one + "/stop", [&coordinator](const HttpRequest &request) {
      return json_response(200, wire::job_json(coordinator.stop_job(id_in(request))));
    });
    add("POST", one + "/cancel", [&coordinator](const HttpRequest &request) {
      return json_response(200, wire::job_json(coordinator.cancel_job(id_in(request))));
    });
    add("GET", one + "/losses", [&coordinator](const HttpRequest &request) {
      expect_query(request, {"round", "after", "limit"});
      std::optional<std::uint32_t> round;
      if (request.query.contains("round"))
        round = static_cast<std::uint32_t>(number_in(request, "round", 0, limits::kRoundsMax));
      const Id id = id_in(request);
      const auto series = coordinator.losses_after(id, loss_place_in(request),
                                                   limit_in(request, limits::kPageSizeMax), round);
      std::optional<LossPlace> next;
      if (!series.empty()) next = {series.back().round, series.back().worker_id};
      if (next && coordinator.losses_after(id, *next, 1, round).empty()) next.reset();
      return json_response(200, wire::losses_json(series, next));
    });
    add("GET", one + "/model",
        [&coordinator](const HttpRequest &request) { return model_file(coordinator, request); });
    routes_.push_back(
        {"GET", one + "/events", accept(),
         [&streams = streams_](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
           expect_query(request, {"after"});
           std::uint64_t after = number_in(request, "after", 0, UINT64_MAX);
           if (const std::string last = request.header("Last-Event-ID"); !last.empty()) {
             const auto value = text::parse_u64(last);
             if (!value)
               throw Error(ErrorCode::invalid_argument, "Last-Event-ID must be a number",
                           {{"Last-Event-ID", "type", "must be a number"}});
             after = *value;
           }
           streams.add(id_in(request), after, std::move(respond));
         }});
  }

  /// After which round the job has had this model; 0: the initial one.
  static std::uint32_t round_of(const Coordinator &coordinator, Id id, const RoundChoice &choice,
                                const ObjectInfo &model) {
    if (const auto *number = std::get_if<std::uint32_t>(&choice)) return *number;
    const JobStatus job = coordinator.job(id);
    const auto same = [&](const RoundRecord &record) { return record.model_sha256 == model.sha256; };
    // Rounds that change nothing have one model.
    if (std::holds_alternative<BestRound>(choice) && job.best_round &&
        same(job.rounds.at(*job.best_round - 1)))
      return *job.best_round;
    const auto found = std::find_if(job.rounds.rbegin(), job.rounds.rend(), same);
    return found == job.rounds.rend() ? 0 : found->round;
  }

  static HttpResponse model_file(Coordinator &coordinator, const HttpRequest &request) {
    expect_query(request, {"round"});
    RoundChoice round;
    if (const auto found = request.query.find("round"); found != request.query.end()) {
      const auto choice = wire::parse_round_choice(found->second);
      if (!choice || found->second.empty()) refuse_query("round", "must be a round's number or best");
      round = *choice;
    }
    const Id id = id_in(request);
    const ObjectInfo object = coordinator.job_model(id, round);
    HttpResponse response;
    response.headers["Content-Type"] = "application/octet-stream";
    response.headers["Content-Disposition"] =
        "attachment; filename=\"job-" + std::to_string(id) + ".safetensors\"";
    response.headers["X-Content-SHA256"] = object.sha256;
    response.headers[kModelRound] = std::to_string(round_of(coordinator, id, round, object));
    response.source = coordinator.store().open(object.key);
    response.etag = object.etag;
    return response;
  }

  void add_registry() {
    Coordinator &coordinator = coordinator_;
    const std::string worker = std::string(kWorkers) + "/{id}";
    add("POST", kWorkers, [&coordinator](const HttpRequest &request) {
      expect_json(request);
      const WorkerCredentials credentials = coordinator.add_worker(
          wire::value_or_throw(wire::parse_worker_spec(request.body), "worker"), idempotency_key_in(request));
      return created(kWorkers, credentials.worker.id, wire::credentials_json(credentials));
    });
    add("GET", kWorkers, [&coordinator](const HttpRequest &request) {
      return list_response(request, coordinator.workers(), wire::worker_json);
    });
    add("GET", worker, [&coordinator](const HttpRequest &request) {
      return json_response(200, wire::worker_json(coordinator.worker(id_in(request))));
    });
    add("DELETE", worker, [&coordinator](const HttpRequest &request) {
      coordinator.remove_worker(id_in(request));
      HttpResponse response;
      response.status = 204;
      return response;
    });
    add_long("POST", kDatasets, [&coordinator](const HttpRequest &request, const CancelQuery &cancelled) {
      expect_json(request);
      DatasetSpec spec = wire::value_or_throw(wire::parse_dataset_spec(request.body), "dataset");
      spec.cancelled = cancelled;
      const DatasetInfo dataset = coordinator.add_dataset(spec, idempotency_key_in(request));
      return created(kDatasets, dataset.id, wire::dataset_json(dataset));
    });
    add("GET", kDatasets, [&coordinator](const HttpRequest &request) {
      return list_response(request, coordinator.datasets(), wire::dataset_json);
    });
    add("GET", std::string(kDatasets) + "/{id}", [&coordinator](const HttpRequest &request) {
      return json_response(200, wire::dataset_json(coordinator.dataset(id_in(request))));
    });
    add_long("POST", kModels, [&coordinator](const HttpRequest &request, const CancelQuery &cancelled) {
      expect_json(request);
      ModelSpec spec = wire::value_or_throw(wire::parse_model_spec(request.body), "model");
      spec.cancelled = cancelled;
      const ModelInfo model = coordinator.add_model(spec, idempotency_key_in(request));
      return created(kModels, model.id, wire::model_json(model));
    });
    add("GET", kModels, [&coordinator](const HttpRequest &request) {
      return list_response(request, coordinator.models(), wire::model_json);
    });
    add("GET", std::string(kModels) + "/{id}", [&coordinator](const HttpRequest &request) {
      return json_response(200, wire::model_json(coordinator.model(id_in(request))));
    });
  }

  /// The token is checked before a body is read.
  std::function<BodyPlan(HttpRequest &)> accept() const {
    return [token_sha256 = token_sha256_](HttpRequest &request) {
      if (!system::equal_in_constant_time(system::sha256_hex(bearer_token(request)), token_sha256)) {
        throw Error(ErrorCode::unauthorized, "this is not the operator's token");
      }
      return plain_body(request);
    };
  }

  void add(std::string method, std::string pattern, Answer answer) {
    add_long(std::move(method), std::move(pattern),
             [answer = std::move(answer)](const HttpRequest &request, const CancelQuery &) {
               return answer(request);
             });
  }

  /// One that may take minutes, and ends when nobody waits for its answer: the client has gone, or the server
  /// stops.
  void add_long(std::string method, std::string pattern, LongAnswer answer) {
    routes_.push_back(
        {std::move(method), std::move(pattern), accept(),
         [answer = std::move(answer)](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
           respond.send(answer(request, [respond] { return respond.is_gone(); }));
         }});
  }

  Coordinator &coordinator_;
  EventStreams &streams_;
  const std::string token_sha256_;
  std::vector<Route> routes_;
};

}  // namespace

std::vector<Route> operator_routes(Coordinator &coordinator, EventStreams &streams,
                                   const std::string &operator_token) {
  return OperatorRoutes(coordinator, streams, operator_token).all();
}

}  // namespace parsyn::transport
