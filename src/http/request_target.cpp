#include "http/request_target.hpp"

#include <algorithm>
#include <utility>

#include "http/text.hpp"
#include "parsyn/error.hpp"
#include "text/encoding.hpp"
#include "text/utf8.hpp"

namespace parsyn::http {
namespace {

[[noreturn]] void refuse(std::string what) { throw Error(ErrorCode::invalid_argument, std::move(what)); }

std::string decoded(std::string_view text, std::string_view where) {
  auto result = text::percent_decode(text);
  if (!result) refuse("the request's " + std::string(where) + " has a broken percent escape");
  if (result->find('\0') != std::string::npos) refuse("the request's " + std::string(where) + " holds a NUL");
  return *std::move(result);
}

std::string_view without_authority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || !same_word(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const auto path = target.find_first_of("/?");
    return path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  return target;
}

void check_segments(std::string_view path) {
  std::size_t start = 1;
  while (start <= path.size()) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view segment = path.substr(start, end - start);
    if (segment == "." || segment == "..") refuse("the request's path has a '.' or '..' segment");
    start = end + 1;
  }
}

}  // namespace

RequestTarget parse_request_target(std::string_view target) {
  target = without_authority(target);
  const auto mark = target.find('?');
  RequestTarget parsed;
  parsed.path = decoded(target.substr(0, mark), "path");
  if (parsed.path.empty() && mark == 0) parsed.path = "/";
  if (parsed.path.empty() || parsed.path.front() != '/') refuse("the request's target is not a path");
  check_segments(parsed.path);
  if (mark == std::string_view::npos) return parsed;

  std::string query(target.substr(mark + 1));
  std::replace(query.begin(), query.end(), '+', ' ');
  std::string_view rest = query;
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    std::string name = decoded(pair.substr(0, equals), "query");
    std::string value = equals == std::string_view::npos ? "" : decoded(pair.substr(equals + 1), "query");
    if (!parsed.query.emplace(name, std::move(value)).second) {
      refuse("the query has '" + text::printable(name, 100) + "' more than once");
    }
  }
  return parsed;
}

}  // namespace parsyn::http
