// The coordinator's own objects behind signed URLs: what presigned URLs are for S3.
#include "http/byte_range.hpp"
#include "parsyn/error.hpp"
#include "text/encoding.hpp"
#include "transport/partial_uploads.hpp"
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

void set_offset(HttpResponse &response, std::uint64_t offset) {
  response.headers[kUploadOffset] = std::to_string(offset);
}

/// What an upload has come to: the stored object, or how far it is.
HttpResponse answer_of(const PartialUploads::Standing &standing) {
  HttpResponse response;
  if (standing.object) {
    response = json_response(200, wire::object_json(*standing.object));
    response.headers["ETag"] = standing.object->etag;
    response.headers["X-Content-SHA256"] = standing.object->sha256;
  } else {
    response.status = 204;
  }
  set_offset(response, standing.offset);
  return response;
}

/// Without a Content-Range: the whole object. "bytes A-B/TOTAL": a part of it. "bytes */TOTAL": a question,
/// without a body and a sink.
BodyPlan plan_of_put(PartialUploads &uploads, Id worker, const HttpRequest &request,
                     std::uint64_t bytes_max) {
  const std::string &key = request.parameters.at(0);
  const std::string header = request.header("Content-Range");
  const auto part = http::parse_content_range(header);
  const auto total = part ? part->size : http::parse_unsatisfied_range(header);
  if (!header.empty() && !total) {
    throw Error(ErrorCode::invalid_argument, "the Content-Range cannot be read",
                {{"Content-Range", "format", "must be like 'bytes 5-9/10', or 'bytes */10'"}});
  }
  if (total > bytes_max) {
    throw Error(ErrorCode::too_large, "the object has " + std::to_string(*total) + " bytes; at most " +
                                          std::to_string(bytes_max) + " are taken");
  }
  BodyPlan plan;
  plan.bytes_max = part ? part->range.last - part->range.first + 1 : total ? 0 : bytes_max;
  if (part) {
    plan.sink = uploads.go_on(worker, key, part->range, *total);
    if (!plan.sink) {
      const std::uint64_t offset = uploads.standing(key, *total).offset;
      plan.refuse = http::problem_response(
          Error(ErrorCode::conflict, "the part begins at byte " + std::to_string(part->range.first) +
                                         "; the upload goes on at byte " + std::to_string(offset)));
      set_offset(*plan.refuse, offset);
    }
  } else if (!total) {
    const auto bytes = text::parse_u64(request.header("Content-Length"));
    // Over it, the server refuses the body: what there is stays.
    if (bytes.value_or(0) <= bytes_max) plan.sink = uploads.begin(worker, key, bytes);
  }
  return plan;
}

}  // namespace

std::vector<Route> object_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer,
                                 PartialUploads &uploads) {
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
            [&service, signer, &uploads](HttpRequest &request) {
              const std::string &key = request.parameters.at(0);
              const Id worker = signer->verify("PUT", key, request.query);
              return plan_of_put(uploads, worker, request, writable_bytes(service, worker, key));
            },
            [&service, &uploads](HttpRequest request, std::shared_ptr<ByteSink> sink, Responder respond) {
              const std::string &key = request.parameters.at(0);
              // The URL was verified before the body came, which may have taken longer than it lives.
              writable_bytes(service, text::parse_u64(request.query.at("worker")).value(), key);
              respond.send(answer_of(
                  sink ? uploads.finish(key, *sink)
                       : uploads.standing(
                             key, http::parse_unsatisfied_range(request.header("Content-Range")).value())));
            }};
  return {std::move(get), std::move(put)};
}

}  // namespace parsyn::transport
