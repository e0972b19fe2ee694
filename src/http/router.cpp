#include "http/router.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace parsyn::http {
namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  path.remove_prefix(1);
  for (;;) {
    const auto slash = path.find('/');
    segments.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_placeholder(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}
bool is_rest(std::string_view segment) { return is_placeholder(segment) && segment.ends_with("...}"); }

char rank_of(std::string_view segment) {
  if (is_rest(segment)) return 'c';
  return is_placeholder(segment) ? 'b' : 'a';
}

std::optional<std::vector<std::string>> match(const std::vector<std::string> &pattern,
                                              const std::vector<std::string> &path) {
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (i >= path.size()) return std::nullopt;
    if (is_rest(pattern[i])) {
      std::string rest = path[i];
      for (std::size_t j = i + 1; j < path.size(); ++j) rest += "/" + path[j];
      if (rest.empty()) return std::nullopt;
      parameters.push_back(std::move(rest));
      return parameters;
    }
    if (is_placeholder(pattern[i])) {
      if (path[i].empty()) return std::nullopt;
      parameters.push_back(path[i]);
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  if (path.size() != pattern.size()) return std::nullopt;
  return parameters;
}

}  // namespace

Router::Router(std::vector<Route> routes) {
  std::set<std::string> known;
  for (auto &route : routes) {
    const std::string name = route.method + " " + route.pattern;
    if (route.method.empty() || route.pattern.empty() || route.pattern.front() != '/' || !route.handle) {
      throw Error(ErrorCode::invalid_argument,
                  "the route '" + name + "' needs a method, a pattern that starts with '/', and a handler");
    }
    if (!known.insert(name).second)
      throw Error(ErrorCode::invalid_argument, "the route '" + name + "' is there twice");
    Entry entry;
    entry.segments = split(route.pattern);
    for (std::size_t i = 0; i < entry.segments.size(); ++i) {
      if (is_rest(entry.segments[i]) && i + 1 != entry.segments.size()) {
        throw Error(ErrorCode::invalid_argument,
                    "in the route '" + name + "' only the last segment may match several");
      }
      entry.rank += rank_of(entry.segments[i]);
    }
    entry.route = std::move(route);
    entries_.push_back(std::move(entry));
  }
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry &a, const Entry &b) { return a.rank < b.rank; });
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  const auto segments = split(path);
  Match as_get;
  std::set<std::string> allowed;
  for (const auto &entry : entries_) {
    auto parameters = match(entry.segments, segments);
    if (!parameters) continue;
    if (entry.route.method == method) return {&entry.route, *std::move(parameters), {}};
    allowed.insert(entry.route.method);
    if (entry.route.method == "GET") {
      allowed.insert("HEAD");
      if (method == "HEAD" && !as_get.route) as_get = {&entry.route, *std::move(parameters), {}};
    }
  }
  if (as_get.route) return as_get;
  Match none;
  for (const auto &name : allowed) none.allowed += (none.allowed.empty() ? "" : ", ") + name;
  return none;
}

bool Router::uses(HandlerPool pool) const {
  return std::ranges::any_of(entries_, [pool](const Entry &entry) { return entry.route.pool == pool; });
}

}  // namespace parsyn::http
