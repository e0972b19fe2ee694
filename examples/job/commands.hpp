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

/// A job's document: of a regular file, of anything else that can be read (a pipe, /dev/fd/63), or for "-" of
/// standard input, at most limits::kHttpJsonBytesMax bytes. Throws Error: not_found, io, too_large,
/// invalid_argument (there is nothing in it).
std::string read_document(const std::string &file);
/// The documents that are sent. Relative paths become absolute: the coordinator reads the files, in a folder
/// of its own.
Json dataset_document(const DatasetAdd &command);
/// Throws Error(invalid_argument) for a --from-job that cannot be read.
Json model_document(const ModelAdd &command);

}  // namespace parsyn::programs
