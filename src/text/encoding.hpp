// Bytes and numbers as text: hex, percent-encoding, decimals. Locale-free.
//
// Thread-safety: free functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace parsyn::text {

std::string hex(std::span<const std::byte> bytes);
/// Whether `text` is what hex() makes of so many bytes: lower-case digits, two for each.
bool is_hex(std::string_view text, std::size_t bytes);
/// Everything but RFC 3986's unreserved characters becomes %XX; `keep` names further characters to leave
/// alone.
std::string percent_encode(std::string_view text, std::string_view keep = {});
/// Nothing when an escape is broken.
std::optional<std::string> percent_decode(std::string_view text);
/// Decimal digits only, without sign or space; nothing when it does not fit.
std::optional<std::uint64_t> parse_u64(std::string_view text);

}  // namespace parsyn::text
