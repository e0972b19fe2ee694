// The coordinator's own objects behind signed URLs: what presigned URLs are for S3.
#include "parsyn/error.hpp"
#include "system/text.hpp"
#include "transport/paths.hpp"
#include "transport/routes.hpp"
#include "wire/resource_json.hpp"

namespace parsyn::transport {
namespace {

/// Access ends with the task, whatever time the URL still has.
std::uint64_t writable_bytes(WorkerService &service, Id worker, const std::string &key) {
  const std::uint64_t bytes = service.may_write(worker, key);
  if (bytes == 0)
    throw Error(ErrorCode::forbidden, "the task of this upload is over: drop it and ask for a new task");
  return bytes;
}

}  // namespace

std::vector<Route> object_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer) {
  const std::string pattern = std::string(kObjectsPath) + "{key...}";
  Route get{"GET", pattern,
            [&service, signer](HttpRequest &request) {
              const std::string &key = request.parameters.at(0);
              if (!service.may_read(signer->verify("GET", key, request.query), key)) {
                throw Error(ErrorCode::forbidden,
                            "this object is not part of a task that the worker has now");
              }
              return BodyPlan{};
            },
            [&service](HttpRequest request, std::shared_ptr<ByteSink>, Responder respond) {
              const ObjectInfo object = service.objects().stat(request.parameters.at(0));
              HttpResponse response;
              response.headers["Content-Type"] = "application/octet-stream";
              response.headers["X-Content-SHA256"] = object.sha256;
              response.source = service.objects().open(object.key);
              response.etag = object.etag;
              respond.send(std::move(response));
            }};
  Route put{"PUT", pattern,
            [&service, signer](HttpRequest &request) {
              BodyPlan plan;
              const std::string &key = request.parameters.at(0);
              plan.bytes_max = writable_bytes(service, signer->verify("PUT", key, request.query), key);
              if (!request.header("Content-Range").empty()) {
                throw Error(ErrorCode::invalid_argument,
                            "an object is put as a whole: send it without Content-Range",
                            {{"Content-Range", "unsupported", "must not be there"}});
              }
              plan.sink = std::shared_ptr<ByteSink>(service.objects().create(key));
              return plan;
            },
            [&service](HttpRequest request, std::shared_ptr<ByteSink> sink, Responder respond) {
              // The URL was verified before the body came, which may have taken longer than it lives.
              writable_bytes(service, system::parse_u64(request.query.at("worker")).value(),
                             request.parameters.at(0));
              const ObjectInfo object = static_cast<ObjectWriter &>(*sink).commit();
              HttpResponse response = json_response(200, wire::object_json(object));
              response.headers["ETag"] = object.etag;
              response.headers["X-Content-SHA256"] = object.sha256;
              respond.send(std::move(response));
            }};
  return {std::move(get), std::move(put)};
}

}  // namespace parsyn::transport
