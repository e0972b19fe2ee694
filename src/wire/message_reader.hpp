// Internal to this layer: the frame of decoding one message of the worker protocol.
//
// Thread-safety: free functions without state.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "text/encoding.hpp"
#include "wire/object_reader.hpp"
#include "wire/parsed.hpp"

namespace parsyn::wire {

/// Calls `read` with the fields of `text`; throws refusal() with all faults.
template <typename T, typename Read>
T decode_message(std::string_view what, std::string_view text, Read read) {
  T message;
  FaultList faults;
  if (const auto document = read_json(text, faults)) {
    ObjectReader reader(*document, "", faults, UnknownFields::ignored);
    read(reader, message);
  }
  if (!faults.empty()) throw refusal(what, faults.take());
  return message;
}

inline constexpr core::WholeRange kAnyCount{};
inline constexpr core::WholeRange kRoundRange{0, limits::kRoundsMax};
/// Leases and tasks count from 1.
inline constexpr core::WholeRange kFromOne{1, UINT64_MAX};

inline void read_milliseconds(ObjectReader &reader, std::string_view name, std::chrono::milliseconds &out,
                              Presence presence) {
  constexpr core::WholeRange kOneDay{0, 24ULL * 3600 * 1000};
  auto count = static_cast<std::uint64_t>(out.count());
  reader.read_whole(name, count, kOneDay, presence);
  out = std::chrono::milliseconds(count);
}

/// Lower-case hex of 32 bytes. An empty text counts as none.
inline void read_sha256(ObjectReader &reader, std::string_view name, std::string &out, Presence presence) {
  constexpr std::size_t kDigits = 64;
  reader.read(name, out,
              {.bytes_max = kDigits, .bytes_min = presence == Presence::required ? kDigits : std::size_t{0}},
              presence);
  if (!out.empty() && !text::is_hex(out, kDigits / 2))
    reader.fault(name, "format", "must be a SHA-256: 64 lower-case hexadecimal digits");
}

}  // namespace parsyn::wire
