// The commands of parsyn-job but watch, events and download. Each gives its exit code, and throws Error.
#pragma once

#include "job/options.hpp"
#include "job/rest_client.hpp"

namespace parsyn::programs {

int submit_job(RestClient &client, const ClientOptions &options, const Submit &command);
int end_job(RestClient &client, const ClientOptions &options, const End &command);
int add_worker(RestClient &client, const ClientOptions &options, const WorkerAdd &command);
int remove_worker(RestClient &client, const ClientOptions &options, const WorkerRemove &command);
int add_dataset(RestClient &client, const ClientOptions &options, const DatasetAdd &command);
int add_model(RestClient &client, const ClientOptions &options, const ModelAdd &command);

/// The documents that are sent. Relative paths become absolute: the coordinator reads the files, in a folder
/// of its own.
Json dataset_document(const DatasetAdd &command);
/// Throws Error(invalid_argument) for a --from-job that cannot be read.
Json model_document(const ModelAdd &command);

}  // namespace parsyn::programs
