// Byte ranges of RFC 9110, section 14: what a client asks for, and what a server says that it sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace parsyn::http {

/// Bytes first .. last, both included.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

/// What a Range header means for a representation of `size` bytes.
struct RangeRequest {
  enum class Kind {
    whole,          ///< Not a range of bytes, several ranges, or not well-formed: to be ignored.
    part,           ///< `range` is to be sent, cut at the end of the representation.
    unsatisfiable,  ///< Well-formed, and without one byte of the representation.
  };
  Kind kind = Kind::whole;
  ByteRange range;
};

RangeRequest parse_range(std::string_view header, std::uint64_t size);

/// "bytes 5-9/10": the range, and the size of the whole, absent for "*". Nothing when it is not well-formed.
struct ContentRange {
  ByteRange range;
  std::optional<std::uint64_t> size;
};
std::optional<ContentRange> parse_content_range(std::string_view header);

/// "bytes */10", a Content-Range without a range: the size of the whole. Nothing when it is not well-formed.
std::optional<std::uint64_t> parse_unsatisfied_range(std::string_view header);

}  // namespace parsyn::http
