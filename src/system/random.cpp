#include "system/random.hpp"

#include <openssl/rand.h>

#include <vector>

#include "parsyn/error.hpp"
#include "text/encoding.hpp"

namespace parsyn::system {
namespace {

void fill(unsigned char *out, std::size_t size) {
  if (RAND_bytes(out, static_cast<int>(size)) != 1) {
    throw Error(ErrorCode::internal, "the system's random generator gave nothing");
  }
}

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> buffer(bytes);
  fill(buffer.data(), buffer.size());
  return text::hex(std::as_bytes(std::span(buffer)));
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  fill(reinterpret_cast<unsigned char *>(&value), sizeof value);
  return value;
}

}  // namespace parsyn::system
