// The REST API and the worker protocol as routes of an HttpServer, over the contract's interfaces only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "http/http_server.hpp"
#include "parsyn/coordinator.hpp"
#include "transport/event_streams.hpp"
#include "transport/signed_url.hpp"

namespace parsyn::transport {

// The coordinator outlives the server; a signer is shared, because a parked poll may be answered after the
// server has gone.

/// /healthz, /readyz: open.
std::vector<http::Route> health_routes();
/// /api/v1/training-jobs, workers, datasets, models, openapi.json: the operator's.
std::vector<http::Route> operator_routes(Coordinator &coordinator, EventStreams &streams,
                                         const std::string &operator_token);
/// /api/v1/worker: one worker each, by its token.
std::vector<http::Route> worker_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer);
/// /api/v1/objects: by signed URL.
std::vector<http::Route> object_routes(WorkerService &service, std::shared_ptr<const UrlSigner> signer);

/// The token of "Authorization: Bearer TOKEN". Throws Error(unauthorized) when there is none.
std::string bearer_token(const http::HttpRequest &request);

http::HttpResponse json_response(int status, std::string body);

/// Refuses with 400 a body that says that it is something else than JSON. A body without a type, or with the
/// one that curl -d sets by itself, is read as JSON.
void expect_json(const http::HttpRequest &request);

}  // namespace parsyn::transport
