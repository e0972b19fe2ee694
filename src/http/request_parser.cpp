#include "http/request_parser.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>

#include "http/text.hpp"
#include "text/encoding.hpp"
#include "text/trimmed.hpp"

namespace parsyn::http {
namespace {

namespace beast = boost::beast;

/// Of one request: all of its chunk extensions, and all of its trailers. Nothing that parsyn talks to sends
/// either.
constexpr std::uint64_t kChunkExtrasBytesMax = 16 << 10;

/// Headers that may stand only once: two of them would let two readers see two requests.
constexpr std::string_view kSingleHeaders[] = {"Host",         "Content-Length", "Transfer-Encoding",
                                               "Content-Type", "Authorization",  "Range",
                                               "If-Range",     "Expect"};

std::string text(beast::string_view view) { return std::string(view.data(), view.size()); }

}  // namespace

class RequestParser::Parser final : public beast::http::basic_parser<true> {
 public:
  explicit Parser(std::uint64_t header_bytes_max) : header_bytes_max_(header_bytes_max) {
    header_limit(static_cast<std::uint32_t>(
        std::min<std::uint64_t>(header_bytes_max, std::numeric_limits<std::uint32_t>::max())));
    body_limit(boost::none);  // each route has its own
  }

  std::size_t take(std::string_view bytes, std::string &body) {
    body_ = &body;
    std::size_t taken = 0;
    while (taken < bytes.size() && !is_done() && !refusal) {
      const bool in_head = !is_header_done();
      beast::error_code error;
      const std::size_t used = put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
      taken += used;
      if (in_head) limit_head(used, bytes.size() - taken);
      if (error == beast::http::error::need_more) {
        if (!in_head && bytes.size() - taken > kChunkExtrasBytesMax)
          refuse(400, "a chunk's header or trailer is too long");
        break;
      }
      if (error) {
        refuse_for(error);
        break;
      }
      if (in_head && is_header_done()) {
        check_framing();
        break;
      }
      if (used == 0) break;
    }
    body_ = nullptr;
    return taken;
  }

  RequestHead head;
  std::optional<Refusal> refusal;

 private:
  void refuse(int status, std::string detail) {
    if (!refusal) refusal = Refusal{status, std::move(detail)};
  }

  void refuse_for(const beast::error_code &error) {
    if (error == beast::http::error::header_limit) {
      refuse_long_head();
    } else if (error == beast::http::error::bad_version) {
      refuse(505, "the request is not of HTTP/1.1 or HTTP/1.0");
    } else {
      refuse(400, "the request is not well-formed: " + error.message());
    }
  }

  void refuse_long_head() {
    refuse(431, "the request's header has more than " + std::to_string(header_bytes_max_) + " bytes");
  }

  void limit_head(std::size_t used, std::size_t waiting) {
    head_bytes_ += used;
    // The library limits each call's bytes; small fields in many calls would add up without end.
    if (head_bytes_ > header_bytes_max_ || (!is_header_done() && head_bytes_ + waiting > header_bytes_max_)) {
      refuse_long_head();
    }
  }

  void check_framing() {
    const auto encoding = head.headers.find("Transfer-Encoding");
    if (encoding != head.headers.end()) {
      if (!same_word(text::trimmed(encoding->second), "chunked"))
        refuse(501, "only the Transfer-Encoding 'chunked' is known");
      if (head.http_1_0) refuse(400, "HTTP/1.0 has no Transfer-Encoding");
      if (head.headers.contains("Content-Length"))
        refuse(400, "Content-Length and Transfer-Encoding exclude each other");
    }
    const auto length = head.headers.find("Content-Length");
    // The library takes a list of equal lengths for one.
    if (length != head.headers.end() && !text::parse_u64(length->second))
      refuse(400, "Content-Length is not a number");
    if (!head.http_1_0 && !head.headers.contains("Host")) refuse(400, "the Host header is missing");
    head.chunked = chunked();
    head.content_length = content_length().value_or(0);
    head.keep_alive = keep_alive() && !head.http_1_0;
  }

  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target, int version,
                       beast::error_code &) override {
    head.method = text(method);
    head.target = text(target);
    head.http_1_0 = version == 10;
  }

  void on_field_impl(beast::http::field, beast::string_view name_view, beast::string_view value_view,
                     beast::error_code &) override {
    if (in_trailer_) {
      count_extras(name_view.size() + value_view.size());
      return;
    }
    const std::string name = text(name_view);
    const auto [place, added] = head.headers.emplace(name, text(value_view));
    if (added) return;
    for (const std::string_view single : kSingleHeaders) {
      if (same_word(name, single)) refuse(400, "the header " + std::string(single) + " is there twice");
    }
    place->second += ", " + text(value_view);
  }

  void on_header_impl(beast::error_code &) override { in_trailer_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t> &, beast::error_code &) override {}

  std::size_t on_body_impl(beast::string_view piece, beast::error_code &) override {
    body_->append(piece.data(), piece.size());
    return piece.size();
  }

  void on_chunk_header_impl(std::uint64_t, beast::string_view extensions, beast::error_code &) override {
    count_extras(extensions.size());
  }

  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view piece, beast::error_code &) override {
    body_->append(piece.data(), piece.size());
    return piece.size();
  }

  void on_response_impl(int, beast::string_view, int, beast::error_code &) override {}
  void on_finish_impl(beast::error_code &) override {}

  void count_extras(std::size_t bytes) {
    extras_bytes_ += bytes;
    if (extras_bytes_ > kChunkExtrasBytesMax)
      refuse(400, "the request's chunk extensions and trailers are too long");
  }

  const std::uint64_t header_bytes_max_;
  std::uint64_t head_bytes_ = 0;
  std::uint64_t extras_bytes_ = 0;
  bool in_trailer_ = false;      // fields that come after the head are trailers
  std::string *body_ = nullptr;  // only during take()
};

RequestParser::RequestParser(std::uint64_t header_bytes_max)
    : parser_(std::make_unique<Parser>(header_bytes_max)) {}
RequestParser::~RequestParser() = default;

std::size_t RequestParser::put(std::string_view bytes, std::string &body) {
  return parser_->take(bytes, body);
}
bool RequestParser::head_done() const { return parser_->is_header_done(); }
bool RequestParser::done() const { return parser_->is_done(); }
const std::optional<Refusal> &RequestParser::refusal() const { return parser_->refusal; }
const RequestHead &RequestParser::head() const { return parser_->head; }

}  // namespace parsyn::http
