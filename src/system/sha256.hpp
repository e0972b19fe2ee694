// SHA-256 (FIPS 180-4) while bytes pass by, and HMAC-SHA-256 (RFC 2104). The digest is what `sha256sum`
// prints.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "parsyn/bytes.hpp"

namespace parsyn::system {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256 &&) noexcept;
  Sha256 &operator=(Sha256 &&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Lower-case hex; ends this digest.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// Passes on what is written to it, and digests it.
class DigestingSink final : public ByteSink {
 public:
  /// `sink` outlives it.
  explicit DigestingSink(ByteSink &sink) : sink_(sink) {}
  void write(std::span<const std::byte> bytes) override {
    digest_.update(bytes);
    sink_.write(bytes);
  }
  /// Ends the digest.
  std::string sha256() { return digest_.hex(); }

 private:
  ByteSink &sink_;
  Sha256 digest_;
};

std::string sha256_hex(std::string_view text);
std::string sha256_hex(const ByteSource &source);
std::string hmac_sha256_hex(std::string_view key, std::string_view text);
/// Compares in time that does not depend on where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace parsyn::system
