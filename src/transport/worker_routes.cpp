// The worker protocol over HTTP: sessions, tasks by long poll, reports, heartbeats, fresh URLs.
#include "parsyn/error.hpp"
#include "text/encoding.hpp"
#include "transport/paths.hpp"
#include "transport/routes.hpp"
#include "wire/messages.hpp"

namespace parsyn::transport {
namespace {

void fill_urls(Task &task, Id worker, const UrlSigner &signer) {
  const auto read = [&](ObjectRef &object) { object.url = signer.sign("GET", object.key, worker); };
  read(task.global);
  if (task.module) read(*task.module);
  if (task.train) read(*task.train);
  if (task.validation) read(*task.validation);
  if (task.upload) task.upload->url = signer.sign("PUT", task.upload->key, worker);
}

class WorkerRoutes {
 public:
  explicit WorkerRoutes(WorkerService &service) : service_(service) {}

  /// `answer` gets the worker that the token names.
  void add(std::string method, std::string pattern,
           std::function<void(Id, const HttpRequest &, const Responder &)> answer) {
    WorkerService &service = service_;
    routes_.push_back({std::move(method), std::move(pattern),
                       [&service](HttpRequest &request) {
                         service.authenticate(bearer_token(request));
                         return plain_body(request);
                       },
                       [&service, answer = std::move(answer)](HttpRequest request, std::shared_ptr<ByteSink>,
                                                              Responder respond) {
                         answer(service.authenticate(bearer_token(request)), request, respond);
                       },
                       http::HandlerPool::reserved});
  }

  std::vector<Route> take() { return std::move(routes_); }

 private:
  WorkerService &service_;
  std::vector<Route> routes_;
};

}  // namespace

std::vector<Route> worker_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer) {
  WorkerRoutes routes(service);
  routes.add(
      "POST", kSessionPath, [&service](Id worker, const HttpRequest &request, const Responder &respond) {
        respond.send(json_response(
            200, wire::encode(service.open_session(worker, wire::decode_session_request(request.body)))));
      });
  routes.add(
      "DELETE", kSessionPath, [&service](Id worker, const HttpRequest &request, const Responder &respond) {
        const auto found = request.query.find("lease");
        const auto lease = found == request.query.end() ? std::nullopt : text::parse_u64(found->second);
        if (!lease)
          throw Error(ErrorCode::invalid_argument, "the query names no lease",
                      {{"lease", "required", "must be a number"}});
        service.close_session(worker, *lease);
        HttpResponse response;
        response.status = 204;
        respond.send(response);
      });
  routes.add("POST", kTaskPath,
             [&service, signer](Id worker, const HttpRequest &request, const Responder &respond) {
               service.next_task(worker, wire::decode_task_poll(request.body),
                                 [worker, signer, respond](std::optional<Task> task) {
                                   if (task) fill_urls(*task, worker, *signer);
                                   respond.send(json_response(200, wire::encode(task)));
                                 });
             });
  routes.add(
      "POST", kReportPath, [&service](Id worker, const HttpRequest &request, const Responder &respond) {
        respond.send(
            json_response(200, wire::encode(service.report(worker, wire::decode_report(request.body)))));
      });
  routes.add("POST", kHeartbeatPath,
             [&service](Id worker, const HttpRequest &request, const Responder &respond) {
               respond.send(json_response(
                   200, wire::encode(service.heartbeat(worker, wire::decode_heartbeat(request.body)))));
             });
  routes.add(
      "POST", kUrlPath, [&service, signer](Id worker, const HttpRequest &request, const Responder &respond) {
        const wire::UrlRequest wanted = wire::decode_url_request(request.body);
        // A sign of life like any other, and refused like one: what a worker may do, a process whose place
        // was taken may not.
        service.heartbeat(worker, {.lease = wanted.lease, .progress = {}});
        const bool allowed =
            wanted.write ? service.may_write(worker, wanted.key) > 0 : service.may_read(worker, wanted.key);
        if (!allowed)
          throw Error(ErrorCode::forbidden, "this object is not part of a task that the worker has now");
        respond.send(json_response(200, wire::encode(wire::UrlAnswer{signer->sign(
                                            wanted.write ? "PUT" : "GET", wanted.key, worker)})));
      });
  return routes.take();
}

}  // namespace parsyn::transport
