#include "http/answer_receiver.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "http/byte_range.hpp"
#include "http/client_url.hpp"
#include "http/text.hpp"
#include "text/encoding.hpp"
#include "text/trimmed.hpp"

namespace parsyn::http {
namespace {

constexpr std::uint64_t kAnswerHeaderBytesMax = 256 << 10;

}  // namespace

void AnswerReceiver::take_header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kAnswerHeaderBytesMax) {
    fail(ErrorCode::protocol,
         "the answer's header has more than " + std::to_string(kAnswerHeaderBytesMax) + " bytes");
  }
  if (head_done_) return;  // a trailer
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    begun_ = false;
    response_.headers.clear();
    const auto space = line.find(' ');
    const auto status =
        space == std::string_view::npos ? std::nullopt : text::parse_u64(line.substr(space + 1, 3));
    if (!status) fail(ErrorCode::protocol, "the answer's first line is not HTTP");
    response_.status = static_cast<int>(*status);
    begun_ = response_.status >= 200;
  } else if (line.empty()) {
    if (begun_) end_head();
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    const std::string value(text::trimmed(line.substr(colon + 1)));
    const auto [place, added] = response_.headers.emplace(std::string(line.substr(0, colon)), value);
    if (!added) place->second += ", " + value;
  }
}

void AnswerReceiver::end_head() {
  head_done_ = true;
  to_file_ = request_.output_file && (response_.status == 200 || response_.status == 206);
  if (to_file_ && response_.status == 206) check_partial_content();
  const bool has_length = request_.method != "HEAD" && response_.status != 204 && response_.status != 304;
  if (const auto found = response_.headers.find("Content-Length");
      has_length && found != response_.headers.end()) {
    content_length_ = text::parse_u64(found->second);
  }
}

void AnswerReceiver::check_partial_content() const {
  const auto header = response_.headers.find("Content-Range");
  const auto range = header == response_.headers.end() ? std::nullopt : parse_content_range(header->second);
  if (!range) fail(ErrorCode::protocol, "a partial answer without a Content-Range that can be read");
  std::uint64_t first = request_.output_offset;
  if (const auto asked = request_.headers.find("Range"); first == 0 && asked != request_.headers.end()) {
    const RangeRequest parsed = parse_range(asked->second, range->size.value_or(UINT64_MAX));
    if (parsed.kind == RangeRequest::Kind::part) first = parsed.range.first;
  }
  if (range->range.first != first) {
    fail(ErrorCode::protocol, "the partial answer starts at byte " + std::to_string(range->range.first) +
                                  ", not at " + std::to_string(first));
  }
  const auto length = response_.headers.find("Content-Length");
  if (length != response_.headers.end() &&
      text::parse_u64(length->second) != range->range.last - range->range.first + 1) {
    fail(ErrorCode::protocol, "the partial answer's Content-Range and Content-Length differ");
  }
}

void AnswerReceiver::take_body(std::string_view piece) {
  if (!head_done_) fail(ErrorCode::protocol, "a body before the end of the header");
  const bool streamed = request_.on_body && !to_file_ && response_.status / 100 == 2;
  const std::uint64_t bytes_max = to_file_ ? request_.output_bytes_max : request_.response_bytes_max;
  const std::uint64_t at_least = std::max(response_.body_bytes + piece.size(), content_length_.value_or(0));
  if (!streamed && at_least > bytes_max) {
    fail(ErrorCode::too_large, "the answer has at least " + std::to_string(at_least) + " bytes; at most " +
                                   std::to_string(bytes_max) + " are taken");
  }
  response_.body_bytes += piece.size();
  digest_.update(piece);
  if (to_file_) {
    open_output();
    output_->write(std::as_bytes(std::span(piece.data(), piece.size())));
  } else if (streamed) {
    ended_by_caller_ = !request_.on_body(piece);
  } else {
    response_.body.append(piece);
  }
}

HttpClientResponse AnswerReceiver::finish() {
  if (!ended_by_caller_) {
    if (!head_done_) fail(ErrorCode::unavailable, "the answer was cut within its header");
    if (content_length_ && *content_length_ != response_.body_bytes) {
      fail(ErrorCode::unavailable, "the answer was cut: " + std::to_string(response_.body_bytes) + " of " +
                                       std::to_string(*content_length_) + " bytes came");
    }
    if (to_file_) {
      open_output();
      output_->close();
    }
  }
  response_.sha256 = digest_.hex();
  return std::move(response_);
}

void AnswerReceiver::open_output() {
  if (output_) return;
  output_.emplace(*request_.output_file, response_.status == 206 ? request_.output_offset : 0,
                  request_.output_mode);
}

void AnswerReceiver::fail(ErrorCode code, const std::string &what) const {
  throw Error(code, request_.method + " " + shown_url(request_.url) + ": " + what);
}

}  // namespace parsyn::http
