// The REST API and the worker protocol as routes of an HttpServer, over the contract's interfaces only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "http/http_server.hpp"
#include "parsyn/coordinator.hpp"
#include "transport/event_streams.hpp"
#include "transport/partial_uploads.hpp"
#include "transport/signed_url.hpp"

namespace parsyn::transport {

using http::BodyPlan;
using http::HttpRequest;
using http::HttpResponse;
using http::Responder;
using http::Route;

// The coordinator and its partial uploads outlive the server; a signer is shared, because a parked poll may
// be answered after the server has gone.

/// /healthz: the process answers. /readyz: it can change something, else 503 with Coordinator::failure().
/// Open.
std::vector<Route> health_routes(const Coordinator &coordinator);
/// /api/v1/training-jobs, workers, datasets, models, openapi.json: the operator's.
std::vector<Route> operator_routes(Coordinator &coordinator, EventStreams &streams,
                                   const std::string &operator_token);
/// /api/v1/worker: one worker each, by its token. They run on the reserved pool, so that nothing that an
/// operator or a transfer waits for holds up a heartbeat.
std::vector<Route> worker_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer);
/// /api/v1/objects: by signed URL.
std::vector<Route> object_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer,
                                 PartialUploads &uploads);

/// The token of "Authorization: Bearer TOKEN". Throws Error(unauthorized) when there is none.
std::string bearer_token(const HttpRequest &request);

HttpResponse json_response(int status, std::string body);

/// For a route's body of JSON, before it is read: refuses with 415 one that is compressed.
BodyPlan plain_body(const HttpRequest &request);

/// Refuses with 400 a body that says that it is something else than JSON. A body without a type, or with the
/// one that curl -d sets by itself, is read as JSON.
void expect_json(const HttpRequest &request);

}  // namespace parsyn::transport
