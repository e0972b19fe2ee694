// Which route answers a method and a path.
//
// Where several patterns match, the one with the earlier literal segment wins, whatever their order in the
// list:
// "/workers/me" before "/workers/{id}" before "/{rest...}".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/http_server.hpp"

namespace parsyn::http {

class Router {
 public:
  /// Throws Error(invalid_argument) for a pattern that is not well-formed, and for a method and pattern given
  /// twice.
  explicit Router(std::vector<Route> routes);

  struct Match {
    const Route *route = nullptr;         ///< Null: nothing matches; valid as long as the router.
    std::vector<std::string> parameters;  ///< In the order of the pattern's placeholders.
    std::string allowed;  ///< With no route: the methods that the path has ("GET, HEAD"), or empty.
  };
  /// HEAD is answered by a GET route unless there is one of its own.
  Match find(std::string_view method, std::string_view path) const;
  /// Whether a route names this pool.
  bool uses(HandlerPool pool) const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> segments;
    std::string rank;  // one letter per segment: literal before placeholder before rest
  };
  std::vector<Entry> entries_;  // sorted by rank
};

}  // namespace parsyn::http
