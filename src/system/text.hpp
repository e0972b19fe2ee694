// Text and bytes: hex, percent-encoding, UTF-8. Locale-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace parsyn::system {

std::string hex(std::span<const std::byte> bytes);
/// Everything but RFC 3986's unreserved characters becomes %XX; `keep` names further characters to leave
/// alone.
std::string percent_encode(std::string_view text, std::string_view keep = {});
/// Nothing when an escape is broken.
std::optional<std::string> percent_decode(std::string_view text);
bool is_utf8(std::string_view text);
/// Replaces what is not UTF-8, and control characters, by U+FFFD, and shortens to `bytes_max` at a
/// character's border.
std::string printable(std::string_view text, std::size_t bytes_max);
/// Decimal digits only, without sign or space; nothing when it does not fit.
std::optional<std::uint64_t> parse_u64(std::string_view text);

}  // namespace parsyn::system
