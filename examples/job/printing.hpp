// Documents of the REST API on standard output: as text, as JSON lines, or one field of them.
#pragma once

#include <string>
#include <vector>

#include "job/options.hpp"
#include "job/values.hpp"

namespace parsyn::programs {

/// One document: its field with --field (Error(not_found) when it has none), else its JSON with --json, else
/// `text`.
void print_document(const ClientOptions &options, const Json &document, const std::string &text);

/// One line each; a table without --json and --field.
void print_list(const ClientOptions &options, Resource resource, const std::vector<Json> &items);

/// A whole document for people, with line feeds.
std::string describe(Resource resource, const Json &document);

}  // namespace parsyn::programs
