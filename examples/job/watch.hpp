// parsyn-job watch and events.
#pragma once

#include "job/options.hpp"
#include "job/rest_client.hpp"

namespace parsyn::programs {

/// Follows the job to its end. Returns the exit code: kWorked for completed and stopped, kFailed for failed
/// and cancelled, 128 + the signal's number when a signal ended the watching.
int watch_job(RestClient &client, const ClientOptions &options, std::uint64_t id);

/// Prints the job's events: those so far, all of them or an Error; or, following it, to its end.
int print_events(RestClient &client, const ClientOptions &options, const Events &command);

}  // namespace parsyn::programs
