#include "system/sha256.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "parsyn/error.hpp"
#include "system/blocks.hpp"
#include "text/encoding.hpp"

namespace parsyn::system {
namespace {

/// Of what is read at a time.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

void check(bool ok) {
  if (!ok) throw Error(ErrorCode::internal, "OpenSSL refused a SHA-256 operation");
}

std::string to_hex(const unsigned char *digest, unsigned size) {
  return text::hex(std::as_bytes(std::span(digest, size)));
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX *evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  check(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256 &&) noexcept = default;
Sha256 &Sha256::operator=(Sha256 &&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  check(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1);
  return to_hex(digest.data(), size);
}

std::string sha256_hex(std::string_view text) {
  Sha256 digest;
  digest.update(text);
  return digest.hex();
}

std::string sha256_hex(const ByteSource &source) {
  Sha256 digest;
  for_each_block(source, kBlockBytes,
                 [&](std::span<const std::byte> piece, std::uint64_t) { digest.update(piece); });
  return digest.hex();
}

std::string hmac_sha256_hex(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  check(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char *>(text.data()), text.size(), digest.data(),
             &size) != nullptr);
  return to_hex(digest.data(), size);
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace parsyn::system
