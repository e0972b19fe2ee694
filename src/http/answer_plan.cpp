#include "http/answer_plan.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "http/byte_range.hpp"
#include "text/trimmed.hpp"

namespace parsyn::http {
namespace {

std::string quoted_tag(const std::string &etag) {
  if (etag.starts_with('"') || etag.starts_with("W/\"")) return etag;
  return "\"" + etag + "\"";
}

bool is_weak(std::string_view tag) { return tag.starts_with("W/"); }
std::string_view opaque_part(std::string_view tag) { return is_weak(tag) ? tag.substr(2) : tag; }

bool same_tag_strongly(std::string_view a, std::string_view b) { return a == b && !is_weak(a); }
bool same_tag_weakly(std::string_view a, std::string_view b) { return opaque_part(a) == opaque_part(b); }

/// Whether the list of entity tags, or "*", holds `tag`. A comma may stand inside a tag's quotes.
bool lists(std::string_view list, std::string_view tag, bool (*same)(std::string_view, std::string_view)) {
  list = text::trimmed(list);
  if (list == "*") return true;
  while (!list.empty()) {
    const auto open = list.find('"');
    if (open == std::string_view::npos) return false;
    const auto close = list.find('"', open + 1);
    if (close == std::string_view::npos) return false;
    const bool weak = open >= 2 && list.substr(open - 2, 2) == "W/";
    const auto start = weak ? open - 2 : open;
    if (same(list.substr(start, close + 1 - start), tag)) return true;
    list.remove_prefix(close + 1);
  }
  return false;
}

HttpResponse bare(int status, const HttpResponse &from) {
  HttpResponse response;
  response.status = status;
  response.headers = from.headers;
  response.headers.erase("Content-Type");
  return response;
}

}  // namespace

AnswerPlan plan_answer(const HttpRequest &request, HttpResponse response) {
  AnswerPlan plan;
  plan.length = response.source ? response.source->size() : 0;
  const std::string tag = response.etag.empty() ? "" : quoted_tag(response.etag);
  if (!tag.empty()) response.headers["ETag"] = tag;
  if (response.source) response.headers["Accept-Ranges"] = "bytes";

  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (response.status == 200 && !tag.empty()) {
    const std::string if_match = request.header("If-Match");
    if (!if_match.empty() && !lists(if_match, tag, same_tag_strongly)) {
      plan.response =
          problem_response(412, "conflict", "the object's ETag is not the one that If-Match names");
      plan.response.headers["ETag"] = tag;
      return plan;
    }
    const std::string if_none_match = request.header("If-None-Match");
    if (reads && !if_none_match.empty() && lists(if_none_match, tag, same_tag_weakly)) {
      plan.response = bare(304, response);
      return plan;
    }
  }

  const std::string range_text = request.header("Range");
  if (response.status == 200 && response.source && request.method == "GET" && !range_text.empty()) {
    const std::string if_range = request.header("If-Range");
    // A date in If-Range never matches: there is no modification time to compare it with.
    const bool unchanged =
        if_range.empty() || (!tag.empty() && same_tag_strongly(text::trimmed(if_range), tag));
    if (unchanged) {
      const std::uint64_t size = response.source->size();
      const RangeRequest asked = parse_range(range_text, size);
      if (asked.kind == RangeRequest::Kind::unsatisfiable) {
        plan.response = problem_response(
            416, "invalid_argument",
            "the object has " + std::to_string(size) + " bytes; the range holds none of them");
        plan.response.headers["Content-Range"] = "bytes */" + std::to_string(size);
        if (!tag.empty()) plan.response.headers["ETag"] = tag;
        return plan;
      }
      if (asked.kind == RangeRequest::Kind::part) {
        response.status = 206;
        response.headers["Content-Range"] = "bytes " + std::to_string(asked.range.first) + "-" +
                                            std::to_string(asked.range.last) + "/" + std::to_string(size);
        plan.first = asked.range.first;
        plan.length = asked.range.last - asked.range.first + 1;
      }
    }
  }
  plan.response = std::move(response);
  return plan;
}

}  // namespace parsyn::http
